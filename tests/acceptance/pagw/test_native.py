"""The native API: accepted at once under a key, followed by id, told by a webhook."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.web import sign
from pagw.demo.sample.bundles import PEOPLE, SampleAttachment, build_request_bundle
from pagw.demo.sandbox.payer import CALLBACK_SECRET
from pagw.domain.fhir.outcomes import select_errors
from pagw.domain.fhir.rules.pas_rules import check_response
from pagw.model.entities import IdempotencyRecord
from pagw.model.patterns import submission
from pagw.workers.intake import build_idempotency_key
from tests.acceptance.pagw.gateway import Gateway, Parties, fresh, outcome_of
from tests.acceptance.pagw.gateway import gateway as opened_gateway

PENDED = "70551"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def record(gateway: Gateway, key: str, tenant: str = "acme") -> IdempotencyRecord:
    found = gateway.run(gateway.stores.run(submission(build_idempotency_key(tenant, key))))
    assert isinstance(found, IdempotencyRecord)
    return found


@pytest.mark.proves("PG-5")
@pytest.mark.proves("PG-7")
@pytest.mark.proves("PG-43")
def test_a_request_is_accepted_and_followed_to_its_answer(gateway: Gateway) -> None:
    bundle = build_request_bundle(
        reference=fresh("R"), attachments=[SampleAttachment(content=b"Seen twice.")]
    )
    answer = gateway.submit(bundle, **{"x-correlation-id": TRACE})
    pagw_id = answer.json()["pagwId"]
    assert (answer.status_code, answer.headers["location"]) == (202, f"/pas/requests/{pagw_id}")
    assert answer.headers["x-correlation-id"] == TRACE

    stands = gateway.ended(pagw_id)
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
    outcome_of(gateway.get(f"/pas/requests/{pagw_id}/attachments/attachment_009.pdf"), 404, "not-found")

    trail = gateway.get(f"/pas/requests/{pagw_id}/audit").json()["items"]
    reads = [each["resourceType"] for each in trail if each["eventType"] == "PHI_READ"]
    assert reads == ["Bundle", "ClaimResponse", "attachment"]
    assert {each["actorId"] for each in trail if each["eventType"] == "PHI_READ"} == {"acme-client"}
    shown = json.dumps([stands, trail])
    assert not [secret for secret in PEOPLE[0].secrets if secret in shown]


def test_a_bundle_of_some_megabytes_is_taken(still: Gateway) -> None:
    scan = b"Seen twice, and no better. " * 80_000
    bundle = build_request_bundle(reference=fresh("R"), attachments=[SampleAttachment(content=scan)])
    pagw_id = still.accepted(bundle)
    assert still.get(f"/pas/requests/{pagw_id}/bundle").json() == bundle


@pytest.mark.proves("PG-6")
@pytest.mark.proves("PG-8")
@pytest.mark.proves("PG-X2")
def test_a_repeat_is_given_the_stored_answer_and_nothing_is_done_again(gateway: Gateway) -> None:
    bundle, key = build_request_bundle(reference=fresh("R")), fresh("key")
    first = gateway.submit(bundle, key=key)
    pagw_id = first.json()["pagwId"]
    assert "idempotency-replayed" not in first.headers
    gateway.ended(pagw_id)
    kept = record(gateway, key)
    left = (kept.expires_at or datetime.now(UTC)).timestamp() - gateway.stores.clock.now()
    assert timedelta(hours=47) < timedelta(seconds=left) <= timedelta(hours=48)
    assert (kept.pagw_id, kept.status_code) == (pagw_id, 202)
    assert kept.response_key and len(kept.response_hash or "") == 64

    before = gateway.settled()
    again = gateway.submit(bundle, key=key)
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    told = gateway.claim(bundle, **{"x-idempotency-key": key})
    assert told.headers["x-pagw-id"] == pagw_id and told.headers["idempotency-replayed"] == "true"
    assert told.json() == gateway.get(f"/pas/requests/{pagw_id}/response").json()
    assert gateway.settled() == before


@pytest.mark.proves("PG-X1")
def test_of_concurrent_duplicates_one_is_processed(still: Gateway) -> None:
    bundle, key = build_request_bundle(reference=fresh("R")), fresh("key")
    before = still.stored()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: still.submit(bundle, key=key), range(16)))
    taken = [each for each in answers if each.status_code == 202]
    assert {each.json()["pagwId"] for each in taken} == {record(still, key).pagw_id}
    assert len([each for each in taken if "idempotency-replayed" not in each.headers]) == 1
    for each in answers:
        if each.status_code != 202:
            outcome_of(each, 409, "duplicate")
            assert int(each.headers["retry-after"]) >= 1
    after = still.stored()
    assert after["request_tracker"] == before["request_tracker"] + 1
    assert after["objects"] == before["objects"] + 1

    other = build_request_bundle(reference=fresh("R"))
    outcome_of(still.submit(other, key=key), 422, "conflict")
    assert still.stored() == after


@pytest.mark.proves("PG-X3")
def test_a_key_whose_time_is_over_counts_no_more_although_it_is_still_there(still: Gateway) -> None:
    key = fresh("key")
    first = still.submit(key=key).json()["pagwId"]
    over = datetime.fromtimestamp(still.stores.clock.now() - 5, UTC)
    ended = (
        IdempotencyRecord.of(build_idempotency_key("acme", key))
        .update()
        .set(IdempotencyRecord.expires_at, over)
    )
    still.run(still.stores.run(ended))
    second = still.submit(key=key)
    assert second.status_code == 202 and second.json()["pagwId"] != first


@pytest.mark.proves("PG-10")
@pytest.mark.proves("PG-11")
def test_without_idempotency_no_key_is_asked_for_and_none_is_kept(parties: Parties, still: Gateway) -> None:
    outcome_of(still.post("/pas/requests", build_request_bundle(reference=fresh("R"))), 400, "required")
    with opened_gateway(parties, "api", PAGW_IDEMPOTENCY="off") as plain:
        bundle = build_request_bundle(reference=fresh("R"))
        ids = {plain.post("/pas/requests", bundle).json()["pagwId"] for _ in range(2)}
        ids.add(plain.accepted(bundle))
        assert len(ids) == 3
        assert plain.stored()["keys"] == 0


def test_a_request_is_taken_back_until_its_payer_may_have_it(still: Gateway, gateway: Gateway) -> None:
    pagw_id = still.accepted(**{"x-callback-url": f"{still.parties.client_url}/callbacks/acme"})
    outcome_of(still.get(f"/pas/requests/{pagw_id}/response"), 404, "not-found")
    assert still.get(f"/pas/requests/{pagw_id}").json()["hasResponse"] is False
    for _ in range(2):
        taken_back = still.post(f"/pas/requests/{pagw_id}/cancel")
        assert (taken_back.status_code, taken_back.json()["status"]) == (200, "CANCELLED")
    response = still.get(f"/pas/requests/{pagw_id}/response").json()
    assert select_errors(check_response(response)) == []
    assert [each["status"] for each in still.get(f"/pas/requests/{pagw_id}/deliveries").json()["items"]] == [
        "waiting"
    ]
    trail = still.get(f"/pas/requests/{pagw_id}/audit").json()["items"]
    assert [each["eventSubtype"] for each in trail if each["eventType"] == "STATUS"] == [
        "VALIDATED",
        "CANCELLED",
    ]

    done = gateway.accepted()
    gateway.ended(done)
    told = outcome_of(gateway.post(f"/pas/requests/{done}/cancel"), 409, "conflict")
    assert "$submit" in told["issue"][0]["diagnostics"]


def test_what_is_taken_back_while_stages_work_never_reaches_the_payer(gateway: Gateway) -> None:
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda _: gateway.accepted(), range(12)))
        answers = list(pool.map(lambda id: gateway.post(f"/pas/requests/{id}/cancel"), reversed(ids)))
    gateway.settled()
    asked = {each["reference"] for each in gateway.parties.payer.ledger}
    for pagw_id, answer in zip(reversed(ids), answers, strict=True):
        stands = gateway.get(f"/pas/requests/{pagw_id}").json()["status"]
        is_taken_back = answer.status_code == 200
        assert is_taken_back or outcome_of(answer, 409, "conflict")
        assert stands == ("CANCELLED" if is_taken_back else "COMPLETED")
        assert (pagw_id in asked) is not is_taken_back


def test_requests_are_listed_in_pages_newest_first(parties: Parties) -> None:
    with opened_gateway(parties, "api") as own:
        ids = [own.accepted() for _ in range(5)]
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
            outcome_of(own.get(f"/pas/requests?{wrong}"), 400, "value")


@pytest.mark.proves("PG-47")
def test_a_pended_request_is_decided_by_callback_and_its_client_told_by_webhook(gateway: Gateway) -> None:
    bundle = build_request_bundle(reference=fresh("R"), items=[PENDED])
    pagw_id = gateway.accepted(bundle, **{"x-callback-url": f"{gateway.parties.client_url}/callbacks/native"})
    assert gateway.ended(pagw_id, "acme", "PENDED")["decision"] is None

    gateway.decide(pagw_id)
    assert gateway.ended(pagw_id)["decision"] == "approved"
    calls = gateway.delivered(pagw_id)
    assert [(each["deliveryId"], each["status"]) for each in calls] == [(f"{pagw_id}#callback", "delivered")]
    told = gateway.parties.client.received[f"{pagw_id}#callback"]
    assert (told.kind, told.pagw_id, told.bodies) == ("callback", pagw_id, 1)


def test_a_payers_callback_is_proved_and_taken_once(gateway: Gateway) -> None:
    bundle = build_request_bundle(reference=fresh("R"), items=[PENDED])
    pagw_id = gateway.accepted(bundle)
    gateway.ended(pagw_id, "acme", "PENDED")
    path, secret = "/payer-callbacks/ACME-HEALTH", CALLBACK_SECRET

    def called(body: bytes, *, signed_by: str = secret, to: str = path) -> object:
        signature = sign(signed_by, body, gateway.stores.clock.now())
        return gateway.http.post(to, content=body, headers={"x-payer-signature": signature})

    nonsense = b'{"reference": 5}'
    for answer, status in (
        (called(nonsense, signed_by="somebody-elses-secret"), 401),
        (gateway.http.post(path, content=nonsense), 401),
        (called(nonsense), 400),
        (called(nonsense, to="/payer-callbacks/nobody"), 404),
        (called(nonsense, to="/payer-callbacks/%00"), 404),
    ):
        outcome_of(answer, status)  # type: ignore[arg-type]
    gateway.decide(pagw_id)
    gateway.ended(pagw_id)
    count = "SELECT count(*) FROM pagw.audit_log WHERE event_type = 'PAYER_CALLBACK' AND pagw_id = %s"
    assert gateway.rows(count, pagw_id) == [(1,)]
