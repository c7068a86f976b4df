"""What Secrets Manager may answer, as errors of ours."""

from __future__ import annotations

import json

import pytest

from holdfast.core.errors import (
    AccessRefused,
    HoldfastError,
    KeyUnavailable,
    SettingsError,
    StoreUnreachable,
    Throttled,
)
from holdfast.security.secrets_manager import open_secrets_manager
from tests.contract.objects.endpoint import answering


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("AccessDeniedException", AccessRefused),
        ("DecryptionFailure", KeyUnavailable),
        ("ThrottlingException", Throttled),
    ],
)
def test_every_refusal_becomes_an_error_of_ours(code: str, kind: type[HoldfastError]) -> None:
    with answering(400, json.dumps({"__type": code, "message": "told so"})) as address, pytest.raises(kind):
        open_secrets_manager(f"secretsmanager+http://{address}").fetch("webhook")


def test_a_binary_secret_is_refused() -> None:
    with (
        answering(200, json.dumps({"SecretBinary": "eA=="})) as address,
        pytest.raises(SettingsError, match="binary"),
    ):
        open_secrets_manager(f"secretsmanager+http://{address}").fetch("webhook")


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(StoreUnreachable):
        open_secrets_manager("secretsmanager+http://127.0.0.1:1").fetch("webhook")
