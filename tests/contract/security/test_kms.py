"""Errors of KMS at a fake server, mapped by code to Holdfast's errors; also an invalid address."""

from __future__ import annotations

import json

import pytest

from holdfast.core.errors import (
    AccessRefused,
    HoldfastError,
    InvalidRequest,
    KeyUnavailable,
    RequestRefused,
    SettingsError,
    StoreFailed,
    StoreUnreachable,
    Throttled,
)
from holdfast.security.ciphers import Envelope
from holdfast.security.kms import open_kms_cipher
from tests.contract.objects.endpoint import run_fixed_answer_server

MESSAGE = bytes(Envelope(key_id="arn:aws:kms:us-east-1:1:key/k", wrapped=b"wrapped", sealed=b"x" * 40))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("DisabledException", KeyUnavailable),
        ("NotFoundException", KeyUnavailable),
        ("KMSInvalidStateException", KeyUnavailable),
        ("InvalidCiphertextException", InvalidRequest),
        ("IncorrectKeyException", InvalidRequest),
        ("AccessDeniedException", AccessRefused),
        ("ThrottlingException", Throttled),
        ("SomethingElse", RequestRefused),
    ],
)
def test_maps_each_kms_error_code_to_its_error_class(code: str, kind: type[HoldfastError]) -> None:
    """Encrypt, decrypt and rewrap raise exactly the error class for each code."""
    with run_fixed_answer_server(400, json.dumps({"__type": code, "message": "told so"})) as address:
        cipher = open_kms_cipher(f"kms+http://{address}/alias/x")
        for act in (cipher.encrypt, cipher.decrypt, cipher.rewrap):
            with pytest.raises(kind) as raised:
                act(MESSAGE, {})
            assert type(raised.value) is kind
            assert (raised.value.code, "told so" in raised.value.message) == (code, True)
            assert raised.value.__cause__ is not None


def test_distinguishes_a_failing_kms_from_an_unreachable_one() -> None:
    """HTTP 500 raises `StoreFailed`, no connection `StoreUnreachable`."""
    with (
        run_fixed_answer_server(500, json.dumps({"__type": "KMSInternalException"})) as address,
        pytest.raises(StoreFailed) as raised,
    ):
        open_kms_cipher(f"kms+http://{address}/alias/x").encrypt(b"", {})
    assert raised.value.code == "KMSInternalException"
    with pytest.raises(StoreUnreachable):
        open_kms_cipher("kms+http://127.0.0.1:1/alias/x").encrypt(b"", {})


def test_rejects_an_address_without_a_key() -> None:
    with pytest.raises(SettingsError, match="names no key"):
        open_kms_cipher("kms://us-east-1")
