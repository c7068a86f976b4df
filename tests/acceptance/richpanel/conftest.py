"""The secret that webhooks of these tests are signed with."""

from __future__ import annotations

import pytest

from tests.acceptance.richpanel.stage import SECRET, SECRET_VARIABLE


@pytest.fixture(autouse=True)
def webhook_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, SECRET)
