"""What a payer is told and how its answer is read; and that a payer's configuration is checked and holds no secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.errors import ExternalServiceFailed, InvalidRequest, SettingsError
from pagw.integrations.payers.formats import JsonFormat, X12Format, get_format
from tests.unit.pagw.payer_play import MEMBER, PATIENT, make_body, make_config

CLAIM: dict[str, Any] = {
    "member_id": MEMBER,
    "provider_npi": "1234567893",
    "urgency": "expedited",
    "items": [{"sequence": 1, "code": "99213", "system": "http://www.ama-assn.org/go/cpt", "quantity": 2}],
    "patient_reference": "Patient/1",
    "attachments": [{"sequence": 1, "path": ["entry", 1], "is_inline": True}],
}
HASH = "a" * 64


def enriched(**changes: Any) -> dict[str, Any]:
    address = {"city": "SAN DIEGO", "postalCode": "92101-1234", "line": ["92101-1234 Street"]}
    bundle = {"resourceType": "Bundle", "entry": [{"resource": {"address": [address]}}]}
    return {
        "reference": "R-1",
        "claim": CLAIM,
        "bundle": bundle,
        "attachments": [{"name": "attachment_001.pdf", "sha256": HASH, "bytes": 3}],
        "callback_url": "https://gateway.example.com/payer-callbacks/acme",
    } | changes


def test_tells_the_payer_the_claim_the_hashes_and_the_whole_bundle() -> None:
    given = enriched()
    told = json.loads(JsonFormat().convert(given))
    assert {name: told[name] for name in ("reference", "kind", "urgency", "member_id", "provider_npi")} == {
        "reference": "R-1",
        "kind": "submit",
        "urgency": "expedited",
        "member_id": MEMBER,
        "provider_npi": "1234567893",
    }
    assert told["items"] == [CLAIM["items"][0] | {"info_cancelled": False}]
    assert told["attachments"] == [{"name": "attachment_001.pdf", "sha256": HASH, "bytes": 3}]
    assert told["bundle"]["resourceType"] == "Bundle"
    del given["attachments"]
    assert json.loads(JsonFormat().convert(given))["attachments"] == []


def test_takes_the_dash_out_of_zip_codes_and_out_of_nothing_else() -> None:
    given = enriched()
    (entry,) = json.loads(JsonFormat().convert(given))["bundle"]["entry"]
    assert entry["resource"]["address"] == [
        {"city": "SAN DIEGO", "postalCode": "921011234", "line": ["92101-1234 Street"]}
    ]
    assert given["bundle"]["entry"][0]["resource"]["address"][0]["postalCode"] == "92101-1234"
    for code in ("92101", "K1A-0B1", None):
        told = JsonFormat().convert(enriched(bundle={"postalCode": code}))
        assert json.loads(told)["bundle"] == {"postalCode": code}


def test_the_same_request_gives_the_same_bytes_whatever_the_order_of_its_members() -> None:
    given = enriched()
    assert JsonFormat().convert(given) == JsonFormat().convert(dict(reversed(given.items())))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"claim": None}, "member_id"),
        ({"claim": CLAIM | {"items": []}}, "items"),
        ({"claim": CLAIM | {"urgency": PATIENT}}, "urgency"),
        ({"bundle": PATIENT}, "bundle"),
        ({"kind": "cancel"}, "former_reference"),
        ({"attachments": [{"name": "x", "sha256": PATIENT}]}, "sha256"),
    ],
)
def test_names_what_cannot_be_told_without_its_value(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as refused:
        JsonFormat().convert(enriched(**changes))
    assert PATIENT not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "answer", [b"", b"{", b"[]", json.dumps({"status": PATIENT}).encode(), b"[" * 100_000]
)
def test_an_answer_that_is_no_decision_is_named_without_its_value(answer: bytes) -> None:
    with pytest.raises(ExternalServiceFailed, match="Invalid response") as failed:
        JsonFormat().parse_decision(answer)
    assert PATIENT not in str(failed.value)


def test_x12_has_its_place_and_says_that_it_is_not_built() -> None:
    format = get_format(make_config("https://acme.example.com", format="x12-278"))
    assert isinstance(format, X12Format)
    for call in (lambda: format.convert(enriched()), lambda: format.parse_decision(b"ISA*")):
        with pytest.raises(SettingsError, match="not supported.*json"):
            call()
    assert isinstance(get_format(make_config("https://acme.example.com")), JsonFormat)


@pytest.mark.proves("PG-21")
def test_a_payer_is_configured_by_its_row() -> None:
    config = make_config("https://acme.example.com/api/", callback_secret="pagw/callbacks/acme")
    assert (config.api_endpoint, config.token_address) == (
        "https://acme.example.com/api",
        "https://acme.example.com/api/oauth/token",
    )
    assert config.callback_secret_name == "pagw/callbacks/acme"
    assert make_config("http://127.0.0.1:9", auth_type="none", credentials_arn=None).credentials_name == ""


@pytest.mark.proves("PG-56")
def test_credentials_are_named_by_an_arn_or_a_name() -> None:
    arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:pagw/payers/acme-AbC123"
    for reference in (arn, "pagw/payers/acme"):
        assert (
            make_config("https://a.example", credentials_arn=reference).credentials_name == "pagw/payers/acme"
        )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"api_endpoint": "http://acme.example.com"}, "HTTPS"),
        ({"api_endpoint": "https://me:Pass-w0rd@acme.example.com"}, "password"),
        ({"api_endpoint": "https://acme.example.com?key=Pass-w0rd"}, "query"),
        ({"api_endpoint": "https://acme.example.com:port"}, "is not a URL"),
        ({"api_endpoint": "acme"}, "is not a URL"),
        ({"credentials_arn": "Pass-w0rd!"}, "credentials_arn"),
        ({"credentials_arn": None}, "credentials_arn"),
        ({"callback_secret": "Pass-w0rd"}, "callback_secret"),
        ({"auth_type": "Pass-w0rd"}, "auth_type"),
        ({"format": "edifact"}, "format"),
        ({"payer_id": "a b"}, "payer_id"),
        ({"answer_s": 0}, "answer_s"),
    ],
)
@pytest.mark.proves("PG-21")
def test_a_configuration_that_cannot_be_used_is_named_without_its_value(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        make_config("https://acme.example.com", **changes)
    assert "Pass-w0rd" not in str(refused.value)


def test_an_update_names_what_it_changes() -> None:
    told = json.loads(
        make_body("R-2", kind="update", former_reference="R-1", prior_authorization_number="AUTH1")
    )
    assert (told["former_reference"], told["prior_authorization_number"]) == ("R-1", "AUTH1")
