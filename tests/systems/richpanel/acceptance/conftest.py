"""Fixture that sets the secret with which these tests sign their webhooks."""

from __future__ import annotations

import pytest

from tests.systems.richpanel.acceptance.middleware import SECRET, SECRET_VARIABLE


@pytest.fixture(autouse=True)
def webhook_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, SECRET)
