"""Limits at the HTTP API: addresses, subscriptions, elements, bodies, time and concurrent checks."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.guarantees import fingerprint
from holdfast.web import bodies
from holdfast_demo.pagw.sample.bundles import PEOPLE, build_request_bundle
from pagw.api.subscriptions import MAX_ERROR_CHARS
from pagw.domain.fhir.subscriptions import MAX_ORGANIZATION_CHARS
from pagw.domain.fhir.urls import FILTER_CRITERIA
from pagw.domain.webhook_addresses import MAX_ADDRESS_CHARS
from pagw.model import files, patterns, rate_limits
from pagw.model.entities import IdempotencyRecord, PayerRow
from pagw.model.lookup import RequestLookup
from pagw.settings import PagwSettings
from pagw.workers.intake import LARGE_BYTES, SERVICE, Intake
from tests.systems.pagw.acceptance.fhir.test_fhir import build_subscription
from tests.systems.pagw.acceptance.gateway import FHIR, Gateway, expect_outcome, make_unique
from tests.systems.pagw.idempotency_keys import build_idempotency_key


def test_limits_at_the_api_match_the_columns(idle_gateway: Gateway) -> None:
    lengths = {
        (table, column): length
        for table, column, length in idle_gateway.rows(
            "SELECT table_name, column_name, character_maximum_length FROM information_schema.columns "
            "WHERE table_schema = 'pagw'"
        )
    }
    assert lengths["deliveries", "target"] >= MAX_ADDRESS_CHARS
    assert lengths["subscriptions", "endpoint"] >= MAX_ADDRESS_CHARS
    assert lengths["subscriptions", "organization"] >= MAX_ORGANIZATION_CHARS
    assert lengths["subscriptions", "error"] >= MAX_ERROR_CHARS


def test_address_fits_its_column_and_has_no_query(idle_gateway: Gateway) -> None:
    base = f"{idle_gateway.services.client_url}/callbacks/"
    longest = base + "z" * (MAX_ADDRESS_CHARS - len(base))
    before = idle_gateway.count_stored()
    for url in (
        longest + "z",
        base + "z" * (2048 - len(base)),
        # Longer in its percent-encoded form.
        base + "é" * 700,
        f"{base}acme?patient=Ambrosine+Quillfeather",
    ):
        given = {**idle_gateway.headers(), "content-type": FHIR, "x-idempotency-key": make_unique("key")}
        headers = [
            (name.encode(), value.encode()) for name, value in {**given, "x-callback-url": url}.items()
        ]
        body = json.dumps(build_request_bundle(reference=make_unique("X"))).encode()
        outcome = expect_outcome(
            idle_gateway.http.post("/pas/requests", content=body, headers=headers), 422, "value"
        )
        assert "Quillfeather" not in json.dumps(outcome)
        expect_outcome(
            idle_gateway.post("/fhir/Subscription", build_subscription(idle_gateway, endpoint=url)),
            422,
            "value",
        )
    assert idle_gateway.count_stored() == before
    pagw_id = idle_gateway.submit_accepted(**{"x-callback-url": longest})
    assert idle_gateway.post(f"/pas/requests/{pagw_id}/cancel").status_code == 200
    assert idle_gateway.get(f"/pas/requests/{pagw_id}/deliveries").json()["items"][0]["target"] == longest


@pytest.mark.parametrize("end", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_refuses_a_subscription_with_an_impossible_end_or_long_identifier(
    idle_gateway: Gateway, end: str
) -> None:
    before = idle_gateway.count_stored()
    expect_outcome(
        idle_gateway.post("/fhir/Subscription", {**build_subscription(idle_gateway), "end": end}), 422
    )
    longer = build_subscription(idle_gateway)
    criterion = "org-identifier=" + "y" * (MAX_ORGANIZATION_CHARS + 1)
    longer["_criteria"] = {"extension": [{"url": FILTER_CRITERIA, "valueString": criterion}]}
    expect_outcome(idle_gateway.post("/fhir/Subscription", longer), 422, "too-long")
    assert idle_gateway.count_stored() == before


def test_refuses_a_subscription_of_a_tenant_without_a_webhook_secret(
    idle_gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    before = idle_gateway.count_stored()
    with caplog.at_level(logging.ERROR):
        outcome = expect_outcome(
            idle_gateway.post("/fhir/Subscription", build_subscription(idle_gateway), "newcomer"),
            422,
            "business-rule",
        )
    assert "secret" in outcome["issue"][0]["diagnostics"] and "operator" in outcome["issue"][0]["diagnostics"]
    assert "newcomer" in caplog.text and idle_gateway.count_stored() == before


def test_headers_bring_no_patient_data_into_rows(idle_gateway: Gateway) -> None:
    member, before = PEOPLE[0].member_id, idle_gateway.count_stored()
    expect_outcome(idle_gateway.submit(key=f"{member}.Quillfeather"), 422, "value")
    url = f"{idle_gateway.services.client_url}/callbacks/{member.lower()}"
    expect_outcome(idle_gateway.submit(**{"x-callback-url": url}), 422, "value")
    assert idle_gateway.count_stored() == before
    answer = idle_gateway.submit(**{"x-correlation-id": "Quillfeather.Ambrosine"})
    assert answer.status_code == 202
    assert answer.headers["x-correlation-id"] != "Quillfeather.Ambrosine"
    pagw_id = answer.json()["pagwId"]
    kept = idle_gateway.rows(
        "SELECT row_to_json(t)::text FROM pagw.request_tracker t WHERE pagw_id = %s", pagw_id
    )
    assert "Quillfeather" not in kept[0][0]


def test_refuses_a_payer_with_an_unsupported_format(idle_gateway: Gateway) -> None:
    payer = PayerRow(
        payer_id="X12-ONLY",
        name="By X12",
        api_endpoint="https://payer.example",
        auth_type="oauth2",
        credentials_arn="pagw/payers/sandbox",
        format="x12-278",
        client_id=None,
        callback_secret="pagw/callbacks/sandbox",
    )
    idle_gateway.run(idle_gateway.stores.run(patterns.put_payer(payer)))
    before = idle_gateway.count_stored()
    expect_outcome(
        idle_gateway.submit(build_request_bundle(reference=make_unique("X"), payer="X12-ONLY")),
        422,
        "not-supported",
    )
    assert idle_gateway.count_stored() == before


def test_refuses_a_bundle_with_too_many_elements_before_checking_it(
    idle_gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[Any] = []
    monkeypatch.setattr("pagw.workers.intake.check_request", judged.append)
    bundle = build_request_bundle(reference=make_unique("X"))
    part = {"code": {"coding": [{"system": "http://x", "code": "c"}]}, "valueString": "v"}
    observed = {"resourceType": "Observation", "status": "final", "component": [part] * 180}
    bundle["entry"] += [{"fullUrl": f"urn:x:{number}", "resource": observed} for number in range(900)]
    expect_outcome(idle_gateway.submit(bundle), 413, "too-long")
    assert judged == []


def test_checks_one_large_bundle_at_a_time(idle_gateway: Gateway) -> None:
    async def measure_most() -> int:
        intake = Intake(idle_gateway.stores, PagwSettings(), RequestLookup.open())
        running = seen = 0

        def work() -> None:
            nonlocal running, seen
            running += 1
            seen = max(seen, running)
            # Long enough for a second check to start, if it could.
            asyncio.run(asyncio.sleep(0.02))
            running -= 1

        body = b" " * (LARGE_BYTES + 1)
        await asyncio.gather(*(intake._run_off_loop(body, work) for _ in range(4)))
        return seen

    assert idle_gateway.run(measure_most()) == 1


def connect(gateway: Gateway) -> socket.socket:
    """Open a TCP connection to the gateway."""
    parts = urlsplit(gateway.url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=20)


def test_answers_408_to_a_body_that_never_arrives(
    idle_gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MAX_BODY_S", 0.2)
    token = idle_gateway.headers()["authorization"]
    client = f"authorization: {token}\r\ncontent-type: {FHIR}\r\nx-idempotency-key: slow\r\n"
    for path, headers in (
        ("/pas/requests", client),
        ("/fhir/Claim/$inquire", client),
        ("/fhir/Subscription", client),
        ("/payer-callbacks/ACME-HEALTH", ""),
    ):
        with connect(idle_gateway) as connection:
            head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: 1000\r\n\r\n{{"
            connection.sendall(head.encode())
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
        assert b" 408 " in received[:20] and b'"timeout"' in received, path


def test_limits_payer_callbacks_before_reading_their_bodies(
    idle_gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def request_with_length(path: str, length: int) -> bytes:
        with connect(idle_gateway) as connection:
            connection.sendall(
                f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n".encode()
            )
            return connection.recv(65536)

    # None of these calls sends a byte of its body.
    assert b" 413 " in request_with_length("/payer-callbacks/ACME-HEALTH", 2_000_000)[:20]
    assert b" 404 " in request_with_length("/payer-callbacks/NOBODY", 1000)[:20]
    monkeypatch.setattr(rate_limits, "MAX_CALLBACKS", 1)
    assert b" 429 " in request_with_length("/payer-callbacks/ACME-HEALTH", 1000)[:20]


def test_store_error_does_not_leak_internals_to_the_client(
    idle_gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pagw.domain.fhir.subscriptions.MAX_ORGANIZATION_CHARS", 10_000)
    longer = build_subscription(idle_gateway)
    criterion = "org-identifier=" + "y" * 300
    longer["_criteria"] = {"extension": [{"url": FILTER_CRITERIA, "valueString": criterion}]}
    outcome = expect_outcome(idle_gateway.post("/fhir/Subscription", longer), 400)
    text = json.dumps(outcome)
    assert not [each for each in ("S40", "PostgreSQL", "subscriptions", "character varying") if each in text]


def test_retry_during_a_sweep_gets_409_and_no_untracked_request_id(idle_gateway: Gateway) -> None:
    """A first attempt died after writing its file, and the sweeper holds its inbox entry."""
    body, key = json.dumps(build_request_bundle(reference=make_unique("R"))).encode(), make_unique("key")

    async def simulate_dead_call() -> str:
        intake = Intake(idle_gateway.stores, PagwSettings(), RequestLookup.open())
        record_key = build_idempotency_key("acme", key)
        taken = await patterns.SUBMISSIONS.claim(
            idle_gateway.stores, intake._build_record(record_key, fingerprint(json.loads(body)))
        )
        record: IdempotencyRecord = taken.record
        at = record.created_at or datetime.now(UTC)
        await idle_gateway.stores.run(files.keep_bundle(body, at, record.pagw_id))
        await taken.release()  # type: ignore[union-attr]
        await idle_gateway.stores.run(patterns.INBOX.take(SERVICE, record.pagw_id, at))
        return record.pagw_id

    pagw_id = idle_gateway.run(simulate_dead_call())
    expect_outcome(idle_gateway.submit(body, key=key), 409, "duplicate")
    assert idle_gateway.get(f"/pas/requests/{pagw_id}").status_code == 404
    # The key must not answer with a request that is not tracked.
    kept = idle_gateway.run(idle_gateway.stores.run(patterns.submission(build_idempotency_key("acme", key))))
    assert kept is None or kept.status_code is None
