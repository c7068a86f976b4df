"""Bounds: of addresses, names, elements, bodies and time; each refused at the door, in words that tell no internals."""

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
from pagw.api.routes import parameters
from pagw.api.subscriptions import ERROR_CHARS_MAX
from pagw.demo.sample.bundles import PEOPLE, build_request_bundle
from pagw.domain.fhir.subscriptions import MAX_ORGANIZATION_CHARS
from pagw.domain.fhir.urls import FILTER_CRITERIA
from pagw.domain.webhook_addresses import ADDRESS_CHARS_MAX
from pagw.model import files, patterns, rate_limits
from pagw.model.entities import IdempotencyRecord, PayerRow
from pagw.model.lookup import RequestLookup
from pagw.settings import PagwSettings
from pagw.workers.intake import LARGE_BYTES, SERVICE, Intake, Submission, build_idempotency_key
from tests.acceptance.pagw.gateway import FHIR, Gateway, fresh, outcome_of
from tests.acceptance.pagw.test_fhir import wanted


def test_what_is_checked_at_the_door_is_what_the_columns_take(still: Gateway) -> None:
    lengths = {
        (table, column): length
        for table, column, length in still.rows(
            "SELECT table_name, column_name, character_maximum_length FROM information_schema.columns "
            "WHERE table_schema = 'pagw'"
        )
    }
    assert lengths["deliveries", "target"] >= ADDRESS_CHARS_MAX
    assert lengths["subscriptions", "endpoint"] >= ADDRESS_CHARS_MAX
    assert lengths["subscriptions", "organization"] >= MAX_ORGANIZATION_CHARS
    assert lengths["subscriptions", "error"] >= ERROR_CHARS_MAX


def test_an_address_is_as_long_as_its_column_takes_and_has_no_query(still: Gateway) -> None:
    base = f"{still.parties.client_url}/callbacks/"
    longest = base + "z" * (ADDRESS_CHARS_MAX - len(base))
    before = still.stored()
    for url in (
        longest + "z",
        base + "z" * (2048 - len(base)),
        # Longer as it is called than as it is written.
        base + "é" * 700,
        f"{base}acme?patient=Ambrosine+Quillfeather",
    ):
        given = {**still.headers(), "content-type": FHIR, "x-idempotency-key": fresh("key")}
        headers = [
            (name.encode(), value.encode()) for name, value in {**given, "x-callback-url": url}.items()
        ]
        body = json.dumps(build_request_bundle(reference=fresh("X"))).encode()
        told = outcome_of(still.http.post("/pas/requests", content=body, headers=headers), 422, "value")
        assert "Quillfeather" not in json.dumps(told)
        outcome_of(still.post("/fhir/Subscription", wanted(still, endpoint=url)), 422, "value")
    assert still.stored() == before
    pagw_id = still.accepted(**{"x-callback-url": longest})
    assert still.post(f"/pas/requests/{pagw_id}/cancel").status_code == 200
    assert still.get(f"/pas/requests/{pagw_id}/deliveries").json()["items"][0]["target"] == longest


@pytest.mark.parametrize("end", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_a_subscription_that_no_row_could_hold_is_refused(still: Gateway, end: str) -> None:
    before = still.stored()
    outcome_of(still.post("/fhir/Subscription", {**wanted(still), "end": end}), 422)
    longer = wanted(still)
    criterion = "org-identifier=" + "y" * (MAX_ORGANIZATION_CHARS + 1)
    longer["_criteria"] = {"extension": [{"url": FILTER_CRITERIA, "valueString": criterion}]}
    outcome_of(still.post("/fhir/Subscription", longer), 422, "too-long")
    assert still.stored() == before


def test_a_tenant_without_a_secret_is_told_what_is_missing(
    still: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    before = still.stored()
    with caplog.at_level(logging.ERROR):
        told = outcome_of(still.post("/fhir/Subscription", wanted(still), "newcomer"), 422, "business-rule")
    assert "secret" in told["issue"][0]["diagnostics"] and "operator" in told["issue"][0]["diagnostics"]
    assert "newcomer" in caplog.text and still.stored() == before


def test_nothing_of_the_patient_is_taken_into_rows_by_headers(still: Gateway) -> None:
    member, before = PEOPLE[0].member_id, still.stored()
    outcome_of(still.submit(key=f"{member}.Quillfeather"), 422, "value")
    url = f"{still.parties.client_url}/callbacks/{member.lower()}"
    outcome_of(still.submit(**{"x-callback-url": url}), 422, "value")
    assert still.stored() == before
    answer = still.submit(**{"x-correlation-id": "Quillfeather.Ambrosine"})
    assert answer.status_code == 202
    assert answer.headers["x-correlation-id"] != "Quillfeather.Ambrosine"
    pagw_id = answer.json()["pagwId"]
    kept = still.rows("SELECT row_to_json(t)::text FROM pagw.request_tracker t WHERE pagw_id = %s", pagw_id)
    assert "Quillfeather" not in kept[0][0]


def test_a_payer_whose_format_is_not_built_is_refused_at_the_door(still: Gateway) -> None:
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
    still.run(still.stores.run(patterns.put_payer(payer)))
    before = still.stored()
    outcome_of(
        still.submit(build_request_bundle(reference=fresh("X"), payer="X12-ONLY")), 422, "not-supported"
    )
    assert still.stored() == before


def test_a_bundle_of_very_many_elements_is_refused_before_it_is_judged(
    still: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[Any] = []
    monkeypatch.setattr("pagw.workers.intake.check_request", judged.append)
    bundle = build_request_bundle(reference=fresh("X"))
    part = {"code": {"coding": [{"system": "http://x", "code": "c"}]}, "valueString": "v"}
    observed = {"resourceType": "Observation", "status": "final", "component": [part] * 180}
    bundle["entry"] += [{"fullUrl": f"urn:x:{number}", "resource": observed} for number in range(900)]
    outcome_of(still.submit(bundle), 413, "too-long")
    assert judged == []


def test_one_large_bundle_is_judged_at_a_time(still: Gateway) -> None:
    async def most() -> int:
        intake = Intake(still.stores, PagwSettings(), RequestLookup.open())
        running = seen = 0

        def work() -> None:
            nonlocal running, seen
            running += 1
            seen = max(seen, running)
            # Long enough for a second one to begin, if it could.
            asyncio.run(asyncio.sleep(0.02))
            running -= 1

        body = b" " * (LARGE_BYTES + 1)
        await asyncio.gather(*(intake._run_off_loop(body, work) for _ in range(4)))
        return seen

    assert still.run(most()) == 1


def connected(gateway: Gateway) -> socket.socket:
    parts = urlsplit(gateway.url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=20)


def test_a_body_that_does_not_come_is_not_waited_for(still: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameters, "BODY_S_MAX", 0.2)
    token = still.headers()["authorization"]
    client = f"authorization: {token}\r\ncontent-type: {FHIR}\r\nx-idempotency-key: slow\r\n"
    for path, headers in (
        ("/pas/requests", client),
        ("/fhir/Claim/$inquire", client),
        ("/fhir/Subscription", client),
        ("/payer-callbacks/ACME-HEALTH", ""),
    ):
        with connected(still) as connection:
            head = f"POST {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: 1000\r\n\r\n{{"
            connection.sendall(head.encode())
            told = b""
            while chunk := connection.recv(65536):
                told += chunk
        assert b" 408 " in told[:20] and b'"timeout"' in told, path


def test_payers_are_bounded_before_their_bodies_are_read(
    still: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def declared(path: str, length: int) -> bytes:
        with connected(still) as connection:
            connection.sendall(
                f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n".encode()
            )
            return connection.recv(65536)

    # None of them sends a byte of its body.
    assert b" 413 " in declared("/payer-callbacks/ACME-HEALTH", 2_000_000)[:20]
    assert b" 404 " in declared("/payer-callbacks/NOBODY", 1000)[:20]
    monkeypatch.setattr(rate_limits, "CALLBACKS_MAX", 1)
    assert b" 429 " in declared("/payer-callbacks/ACME-HEALTH", 1000)[:20]


def test_a_store_that_refuses_a_value_tells_the_client_nothing_of_itself(
    still: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pagw.domain.fhir.subscriptions.MAX_ORGANIZATION_CHARS", 10_000)
    longer = wanted(still)
    criterion = "org-identifier=" + "y" * 300
    longer["_criteria"] = {"extension": [{"url": FILTER_CRITERIA, "valueString": criterion}]}
    told = outcome_of(still.post("/fhir/Subscription", longer), 400)
    text = json.dumps(told)
    assert not [each for each in ("S40", "PostgreSQL", "subscriptions", "character varying") if each in text]


def test_a_repeat_that_meets_the_sweeper_is_told_to_come_again_and_is_never_lost(still: Gateway) -> None:
    """A first try died after its file; the sweeper took its place to clear it away."""
    body, key = json.dumps(build_request_bundle(reference=fresh("R"))).encode(), fresh("key")

    async def died() -> str:
        intake = Intake(still.stores, PagwSettings(), RequestLookup.open())
        asked = Submission("acme", key, body)
        taken = await patterns.SUBMISSIONS.claim(
            still.stores, intake._build_record(asked, key, fingerprint(json.loads(body)))
        )
        record: IdempotencyRecord = taken.record
        at = record.created_at or datetime.now(UTC)
        await still.stores.run(files.keep_bundle(body, at, record.pagw_id))
        await taken.release()  # type: ignore[union-attr]
        await still.stores.run(patterns.INBOX.take(SERVICE, record.pagw_id, at))
        return record.pagw_id

    pagw_id = still.run(died())
    outcome_of(still.submit(body, key=key), 409, "duplicate")
    assert still.get(f"/pas/requests/{pagw_id}").status_code == 404
    # The key says nothing that is not so: whoever comes again is not told of a request that nobody tracks.
    kept = still.run(still.stores.run(patterns.submission(build_idempotency_key("acme", key))))
    assert kept is None or kept.status_code is None
