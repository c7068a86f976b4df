"""Payer formats and configuration, pure: the request sent, the decision parsed, no secret stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.errors import ExternalServiceFailed, InvalidRequest, SettingsError
from pagw.integrations.payers.formats import JsonFormat, X12Format, get_format
from tests.cases import all_cases
from tests.systems.pagw.unit.payers.payer_harness import MEMBER, PATIENT, make_body, make_config

CLAIM: dict[str, Any] = {
    "member_id": MEMBER,
    "provider_npi": "1234567893",
    "urgency": "expedited",
    "items": [{"sequence": 1, "code": "99213", "system": "http://www.ama-assn.org/go/cpt", "quantity": 2}],
    "patient_reference": "Patient/1",
    "attachments": [{"sequence": 1, "path": ["entry", 1], "is_inline": True}],
}
HASH = "a" * 64


def make_enriched(**changes: Any) -> dict[str, Any]:
    """Make an enriched request with some fields changed."""
    address = {"city": "SAN DIEGO", "postalCode": "92101-1234", "line": ["92101-1234 Street"]}
    bundle = {"resourceType": "Bundle", "entry": [{"resource": {"address": [address]}}]}
    return {
        "reference": "R-1",
        "claim": CLAIM,
        "bundle": bundle,
        "attachments": [{"name": "attachment_001.pdf", "sha256": HASH, "bytes": 3}],
        "callback_url": "https://gateway.example.com/payer-callbacks/acme",
    } | changes


def test_sends_the_claim_the_hashes_and_the_whole_bundle() -> None:
    given = make_enriched()
    body = json.loads(JsonFormat().convert(given))
    assert {name: body[name] for name in ("reference", "kind", "urgency", "member_id", "provider_npi")} == {
        "reference": "R-1",
        "kind": "submit",
        "urgency": "expedited",
        "member_id": MEMBER,
        "provider_npi": "1234567893",
    }
    assert body["items"] == [CLAIM["items"][0] | {"info_cancelled": False}]
    assert body["attachments"] == [{"name": "attachment_001.pdf", "sha256": HASH, "bytes": 3}]
    assert body["bundle"]["resourceType"] == "Bundle"
    del given["attachments"]
    assert json.loads(JsonFormat().convert(given))["attachments"] == []


def test_removes_the_dash_only_from_zip_codes() -> None:
    given = make_enriched()
    (entry,) = json.loads(JsonFormat().convert(given))["bundle"]["entry"]
    assert entry["resource"]["address"] == [
        {"city": "SAN DIEGO", "postalCode": "921011234", "line": ["92101-1234 Street"]}
    ]
    assert given["bundle"]["entry"][0]["resource"]["address"][0]["postalCode"] == "92101-1234"
    for code in ("92101", "K1A-0B1", None):
        result = JsonFormat().convert(make_enriched(bundle={"postalCode": code}))
        assert json.loads(result)["bundle"] == {"postalCode": code}


def test_same_request_gives_the_same_bytes_in_any_member_order() -> None:
    given = make_enriched()
    assert JsonFormat().convert(given) == JsonFormat().convert(dict(reversed(given.items())))


@all_cases(
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
def test_names_an_invalid_member_without_its_value(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as refused:
        JsonFormat().convert(make_enriched(**changes))
    assert PATIENT not in str(refused.value)
    assert refused.value.__cause__ is None


@all_cases("answer", [b"", b"{", b"[]", json.dumps({"status": PATIENT}).encode(), b"[" * 100_000])
def test_reports_an_invalid_decision_without_its_value(answer: bytes) -> None:
    with pytest.raises(ExternalServiceFailed, match="Invalid response") as failed:
        JsonFormat().parse_answer(answer)
    assert PATIENT not in str(failed.value)


def test_x12_format_is_declared_but_refuses_every_call() -> None:
    format = get_format(make_config("https://acme.example.com", format="x12-278"))
    assert isinstance(format, X12Format)
    for call in (lambda: format.convert(make_enriched()), lambda: format.parse_answer(b"ISA*")):
        with pytest.raises(SettingsError, match="not supported.*json"):
            call()
    assert isinstance(get_format(make_config("https://acme.example.com")), JsonFormat)


@pytest.mark.proves("PG-21")
def test_parses_a_payer_configuration_row() -> None:
    config = make_config("https://acme.example.com/api/", callback_secret="pagw/callbacks/acme")
    assert (config.api_endpoint, config.token_address) == (
        "https://acme.example.com/api",
        "https://acme.example.com/api/oauth/token",
    )
    assert config.callback_secret_name == "pagw/callbacks/acme"
    assert make_config("http://127.0.0.1:9", auth_type="none", credentials_arn=None).credentials_name == ""


@pytest.mark.proves("PG-56")
def test_credentials_are_named_by_arn_or_name() -> None:
    arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:pagw/payers/acme-AbC123"
    for reference in (arn, "pagw/payers/acme"):
        assert (
            make_config("https://a.example", credentials_arn=reference).credentials_name == "pagw/payers/acme"
        )


@all_cases(
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
def test_refuses_an_invalid_configuration_without_its_value(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        make_config("https://acme.example.com", **changes)
    assert "Pass-w0rd" not in str(refused.value)


def test_update_names_the_request_it_changes() -> None:
    body = json.loads(
        make_body("R-2", kind="update", former_reference="R-1", prior_authorization_number="AUTH1")
    )
    assert (body["former_reference"], body["prior_authorization_number"]) == ("R-1", "AUTH1")
