"""Errors of Secrets Manager at a fake server, mapped by code to Holdfast's errors."""

from __future__ import annotations

import json

import pytest

from holdfast.core.errors import (
    AccessRefused,
    HoldfastError,
    KeyUnavailable,
    RequestRefused,
    SecretMissing,
    SettingsError,
    StoreUnreachable,
    Throttled,
)
from holdfast.security.secrets_manager import open_secrets_manager
from tests.contract.objects.endpoint import run_fixed_answer_server


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("AccessDeniedException", AccessRefused),
        ("DecryptionFailure", KeyUnavailable),
        ("InvalidRequestException", RequestRefused),
        ("ResourceNotFoundException", SecretMissing),
        ("ThrottlingException", Throttled),
    ],
)
def test_maps_each_error_code_to_its_error_class_and_keeps_it(code: str, kind: type[HoldfastError]) -> None:
    with (
        run_fixed_answer_server(400, json.dumps({"__type": code, "message": "told so"})) as address,
        pytest.raises(kind) as raised,
    ):
        open_secrets_manager(f"secretsmanager+http://{address}").fetch("webhook")
    assert (raised.value.code, "told so" in raised.value.message) == (code, True)
    assert raised.value.__cause__ is not None


def test_rejects_a_binary_secret() -> None:
    with (
        run_fixed_answer_server(200, json.dumps({"SecretBinary": "eA=="})) as address,
        pytest.raises(SettingsError, match="binary"),
    ):
        open_secrets_manager(f"secretsmanager+http://{address}").fetch("webhook")


def test_unreachable_server_raises_store_unreachable() -> None:
    with pytest.raises(StoreUnreachable):
        open_secrets_manager("secretsmanager+http://127.0.0.1:1").fetch("webhook")
