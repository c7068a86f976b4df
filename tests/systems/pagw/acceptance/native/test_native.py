"""Native API over HTTP: requests accepted under an idempotency key, followed, cancelled, announced."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.web import sign
from holdfast_demo.pagw.sample.bundles import PEOPLE, SampleAttachment, build_request_bundle
from holdfast_demo.pagw.sandbox.payer import CALLBACK_SECRET
from pagw.domain.fhir.outcomes import select_errors
from pagw.domain.fhir.rules.pas_rules import check_response
from pagw.model.entities import IdempotencyRecord
from pagw.model.patterns import submission
from tests.systems.pagw.acceptance.gateway import (
    ExternalServices,
    Gateway,
    expect_outcome,
    make_unique,
    start_gateway,
)
from tests.systems.pagw.idempotency_keys import build_idempotency_key

PENDED = "70551"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def read_record(gateway: Gateway, key: str, tenant: str = "acme") -> IdempotencyRecord:
    """Return the record of a tenant's idempotency key."""
    found = gateway.run(gateway.stores.run(submission(build_idempotency_key(tenant, key))))
    assert isinstance(found, IdempotencyRecord)
    return found


@pytest.mark.proves("PG-5", "PG-7", "PG-43")
def test_accepts_a_request_and_reports_its_progress_to_the_end(gateway: Gateway) -> None:
    bundle = build_request_bundle(
        reference=make_unique("R"), attachments=[SampleAttachment(content=b"Seen twice.")]
    )
    answer = gateway.submit(bundle, **{"x-correlation-id": TRACE})
    pagw_id = answer.json()["pagwId"]
    assert (answer.status_code, answer.headers["location"]) == (202, f"/pas/requests/{pagw_id}")
    assert answer.headers["x-correlation-id"] == TRACE

    stands = gateway.wait_for_end(pagw_id)
    assert (stands["status"], stands["decision"], stands["correlationId"]) == (
        "COMPLETED",
        "approved",
        TRACE,
    )
    assert gateway.get(f"/pas/requests/{pagw_id}/bundle").json() == bundle
    response = gateway.get(f"/pas/requests/{pagw_id}/response")
    assert response.headers["content-type"] == "application/fhir+json"
    assert select_errors(check_response(response.json(), bundle)) == []
    (attached,) = stands["attachments"]
    file = gateway.get(f"/pas/requests/{pagw_id}/attachments/{attached['name']}")
    assert (file.content, file.headers["content-type"].partition(";")[0]) == (b"Seen twice.", "text/plain")
    expect_outcome(gateway.get(f"/pas/requests/{pagw_id}/attachments/attachment_009.pdf"), 404, "not-found")

    trail = gateway.get(f"/pas/requests/{pagw_id}/audit").json()["items"]
    reads = [each["resourceType"] for each in trail if each["eventType"] == "PHI_READ"]
    assert reads == ["Bundle", "ClaimResponse", "attachment"]
    assert {each["actorId"] for each in trail if each["eventType"] == "PHI_READ"} == {"acme-client"}
    shown = json.dumps([stands, trail])
    assert not [secret for secret in PEOPLE[0].secrets if secret in shown]


def test_accepts_a_bundle_of_several_megabytes(idle_gateway: Gateway) -> None:
    scan = b"Seen twice, and no better. " * 80_000
    bundle = build_request_bundle(reference=make_unique("R"), attachments=[SampleAttachment(content=scan)])
    pagw_id = idle_gateway.submit_accepted(bundle)
    assert idle_gateway.get(f"/pas/requests/{pagw_id}/bundle").json() == bundle


@pytest.mark.proves("PG-6", "PG-8", "PG-X2")
def test_replays_the_stored_answer_without_new_work(gateway: Gateway) -> None:
    bundle, key = build_request_bundle(reference=make_unique("R")), make_unique("key")
    first = gateway.submit(bundle, key=key)
    pagw_id = first.json()["pagwId"]
    assert "idempotency-replayed" not in first.headers
    gateway.wait_for_end(pagw_id)
    kept = read_record(gateway, key)
    left = (kept.expires_at or datetime.now(UTC)).timestamp() - gateway.stores.clock.now()
    assert timedelta(hours=47) < timedelta(seconds=left) <= timedelta(hours=48)
    assert (kept.pagw_id, kept.status_code) == (pagw_id, 202)
    assert kept.response_key and len(kept.response_hash or "") == 64

    before = gateway.wait_until_settled()
    again = gateway.submit(bundle, key=key)
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    response = gateway.submit_claim(bundle, **{"x-idempotency-key": key})
    assert response.headers["x-pagw-id"] == pagw_id and response.headers["idempotency-replayed"] == "true"
    assert response.json() == gateway.get(f"/pas/requests/{pagw_id}/response").json()
    assert gateway.wait_until_settled() == before


@pytest.mark.proves("PG-X1")
def test_accepts_one_of_concurrent_duplicates_and_no_other_bundle(idle_gateway: Gateway) -> None:
    bundle, key = build_request_bundle(reference=make_unique("R")), make_unique("key")
    before = idle_gateway.count_stored()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: idle_gateway.submit(bundle, key=key), range(16)))
    taken = [each for each in answers if each.status_code == 202]
    assert {each.json()["pagwId"] for each in taken} == {read_record(idle_gateway, key).pagw_id}
    assert len([each for each in taken if "idempotency-replayed" not in each.headers]) == 1
    for each in answers:
        if each.status_code != 202:
            expect_outcome(each, 409, "duplicate")
            assert int(each.headers["retry-after"]) >= 1
    after = idle_gateway.count_stored()
    assert after["request_tracker"] == before["request_tracker"] + 1
    assert after["objects"] == before["objects"] + 1

    other = build_request_bundle(reference=make_unique("R"))
    expect_outcome(idle_gateway.submit(other, key=key), 422, "conflict")
    assert idle_gateway.count_stored() == after


@pytest.mark.proves("PG-X3")
def test_expired_key_can_be_used_for_a_new_request(idle_gateway: Gateway) -> None:
    key = make_unique("key")
    first = idle_gateway.submit(key=key).json()["pagwId"]
    over = datetime.fromtimestamp(idle_gateway.stores.clock.now() - 5, UTC)
    ended = (
        IdempotencyRecord.of(build_idempotency_key("acme", key))
        .update()
        .set(IdempotencyRecord.expires_at, over)
    )
    idle_gateway.run(idle_gateway.stores.run(ended))
    second = idle_gateway.submit(key=key)
    assert second.status_code == 202 and second.json()["pagwId"] != first


@pytest.mark.proves("PG-10", "PG-11")
def test_without_idempotency_no_key_is_required_or_stored(
    external_services: ExternalServices, idle_gateway: Gateway
) -> None:
    expect_outcome(
        idle_gateway.post("/pas/requests", build_request_bundle(reference=make_unique("R"))), 400, "required"
    )
    with start_gateway(external_services, "api", PAGW_IDEMPOTENCY="off") as plain:
        bundle = build_request_bundle(reference=make_unique("R"))
        ids = {plain.post("/pas/requests", bundle).json()["pagwId"] for _ in range(2)}
        ids.add(plain.submit_accepted(bundle))
        assert len(ids) == 3
        assert plain.count_stored()["keys"] == 0


def test_cancels_until_the_payer_may_have_the_request(idle_gateway: Gateway, gateway: Gateway) -> None:
    pagw_id = idle_gateway.submit_accepted(
        **{"x-callback-url": f"{idle_gateway.services.client_url}/callbacks/acme"}
    )
    expect_outcome(idle_gateway.get(f"/pas/requests/{pagw_id}/response"), 404, "not-found")
    assert idle_gateway.get(f"/pas/requests/{pagw_id}").json()["hasResponse"] is False
    for _ in range(2):
        taken_back = idle_gateway.post(f"/pas/requests/{pagw_id}/cancel")
        assert (taken_back.status_code, taken_back.json()["status"]) == (200, "CANCELLED")
    response = idle_gateway.get(f"/pas/requests/{pagw_id}/response").json()
    assert select_errors(check_response(response)) == []
    assert [
        each["status"] for each in idle_gateway.get(f"/pas/requests/{pagw_id}/deliveries").json()["items"]
    ] == ["waiting"]
    trail = idle_gateway.get(f"/pas/requests/{pagw_id}/audit").json()["items"]
    assert [each["eventSubtype"] for each in trail if each["eventType"] == "STATUS"] == [
        "VALIDATED",
        "CANCELLED",
    ]

    done = gateway.submit_accepted()
    gateway.wait_for_end(done)
    outcome = expect_outcome(gateway.post(f"/pas/requests/{done}/cancel"), 409, "conflict")
    assert "$submit" in outcome["issue"][0]["diagnostics"]


def test_request_cancelled_while_stages_work_never_reaches_the_payer(gateway: Gateway) -> None:
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda _: gateway.submit_accepted(), range(12)))
        answers = list(pool.map(lambda id: gateway.post(f"/pas/requests/{id}/cancel"), reversed(ids)))
    gateway.wait_until_settled()
    asked = {each["reference"] for each in gateway.services.payer.ledger}
    for pagw_id, answer in zip(reversed(ids), answers, strict=True):
        stands = gateway.get(f"/pas/requests/{pagw_id}").json()["status"]
        is_taken_back = answer.status_code == 200
        assert is_taken_back or expect_outcome(answer, 409, "conflict")
        assert stands == ("CANCELLED" if is_taken_back else "COMPLETED")
        assert (pagw_id in asked) is not is_taken_back


def test_lists_requests_in_pages(external_services: ExternalServices) -> None:
    with start_gateway(external_services, "api") as own:
        ids = [own.submit_accepted() for _ in range(5)]
        own.post(f"/pas/requests/{ids[2]}/cancel")
        path, seen = "/pas/requests?limit=2", []
        while True:
            page = own.get(path).json()
            seen += [each["pagwId"] for each in page["items"]]
            if page["cursor"] is None:
                break
            path = f"/pas/requests?limit=2&cursor={page['cursor']}"
        assert sorted(seen) == sorted(ids) and len(seen) == len(ids)
        cancelled = own.get("/pas/requests?status=CANCELLED").json()["items"]
        assert [each["pagwId"] for each in cancelled] == [ids[2]]
        for wrong in ("limit=0", "limit=many", "status=LOST", "cursor=nonsense", "cursor=%00"):
            expect_outcome(own.get(f"/pas/requests?{wrong}"), 400, "value")


@pytest.mark.proves("PG-47")
def test_callback_decides_a_pended_request_and_the_client_gets_a_webhook(gateway: Gateway) -> None:
    bundle = build_request_bundle(reference=make_unique("R"), items=[PENDED])
    pagw_id = gateway.submit_accepted(
        bundle, **{"x-callback-url": f"{gateway.services.client_url}/callbacks/native"}
    )
    assert gateway.wait_for_end(pagw_id, "acme", "PENDED")["decision"] is None

    gateway.decide_at_payer(pagw_id)
    assert gateway.wait_for_end(pagw_id)["decision"] == "approved"
    calls = gateway.wait_for_deliveries(pagw_id)
    assert [(each["deliveryId"], each["status"]) for each in calls] == [(f"{pagw_id}#callback", "delivered")]
    received = gateway.services.client.received[f"{pagw_id}#callback"]
    assert (received.kind, received.pagw_id, received.bodies) == ("callback", pagw_id, 1)


def test_callback_must_be_signed_and_is_applied_once(gateway: Gateway) -> None:
    bundle = build_request_bundle(reference=make_unique("R"), items=[PENDED])
    pagw_id = gateway.submit_accepted(bundle)
    gateway.wait_for_end(pagw_id, "acme", "PENDED")
    path, secret = "/payer-callbacks/ACME-HEALTH", CALLBACK_SECRET

    def send_callback(body: bytes, *, signed_by: str = secret, to: str = path) -> object:
        signature = sign(signed_by, body, gateway.stores.clock.now())
        return gateway.http.post(to, content=body, headers={"x-payer-signature": signature})

    nonsense = b'{"reference": 5}'
    for answer, status in (
        (send_callback(nonsense, signed_by="somebody-elses-secret"), 401),
        (gateway.http.post(path, content=nonsense), 401),
        (send_callback(nonsense), 400),
        (send_callback(nonsense, to="/payer-callbacks/nobody"), 404),
        (send_callback(nonsense, to="/payer-callbacks/%00"), 404),
    ):
        expect_outcome(answer, status)  # type: ignore[arg-type]
    gateway.decide_at_payer(pagw_id)
    gateway.wait_for_end(pagw_id)
    count = "SELECT count(*) FROM pagw.audit_log WHERE event_type = 'PAYER_CALLBACK' AND pagw_id = %s"
    assert gateway.rows(count, pagw_id) == [(1,)]
