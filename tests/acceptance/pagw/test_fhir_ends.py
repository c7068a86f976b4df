"""How a request ended is told alike everywhere: a failure after a pended answer, a taking back to its subscribers; and what the
scanner of attachments said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pagw.demo.sample.bundles import (
    PROVIDER_NPIS,
    SampleAttachment,
    build_inquiry_bundle,
    build_request_bundle,
)
from pagw.domain.attachments import NoScanner, ScanResult
from pagw.domain.statuses import Status
from pagw.model import patterns
from pagw.model.audit import Actor
from pagw.system import SYSTEM
from pagw.workers.stages.attachment_handler import AttachmentHandler
from pagw.workers.sync_wait import ResponseReader
from pagw.workers.webhook_sender import NOTIFIER
from tests.acceptance.pagw.gateway import Gateway, Parties, fresh
from tests.acceptance.pagw.gateway import gateway as opened_gateway
from tests.acceptance.pagw.test_fhir import wanted

PENDED = "70551"
FAILED = (
    "UPDATE pagw.request_tracker SET status = 'FAILED', stage = 'done', error_code = 'PAYER_NONSENSE', "
    "error_message = 'The payer answered nonsense.', completed_at = updated_at WHERE pagw_id = %s RETURNING pagw_id"
)


def outcome_told(bundle: dict[str, Any]) -> tuple[str, bool]:
    """The outcome of the ClaimResponse, and whether it says why."""
    claim_response = bundle["entry"][0]["resource"]
    return claim_response["outcome"], "PAYER_NONSENSE" in json.dumps(bundle)


def test_what_failed_after_it_was_pended_is_told_as_failed_by_every_way(gateway: Gateway) -> None:
    reference = fresh("E")
    bundle = build_request_bundle(reference=reference, items=[PENDED])
    answer = gateway.claim(bundle)
    pagw_id = answer.headers["x-pagw-id"]
    assert outcome_told(answer.json()) == ("queued", False)
    gateway.ended(pagw_id, "acme", "PENDED")
    assert gateway.rows(FAILED, pagw_id)
    again = gateway.claim(bundle)
    read = gateway.get(f"/pas/requests/{pagw_id}/response")
    (found,) = gateway.post("/fhir/Claim/$inquire", build_inquiry_bundle(claim_reference=reference)).json()[
        "parameter"
    ]
    for told in (again.json(), read.json(), found["resource"]):
        assert outcome_told(told) == ("error", True)
    assert again.json() == read.json()


def test_the_notifier_may_read_all_that_an_answer_is_made_of(gateway: Gateway) -> None:
    pagw_id = gateway.accepted(build_request_bundle(reference=fresh("E"), items=[PENDED]))
    gateway.ended(pagw_id, "acme", "PENDED")
    request = gateway.run(gateway.stores.run(patterns.request("acme", pagw_id)))
    answers, notifier = ResponseReader(gateway.stores.for_component("pasnotifier")), Actor.service(NOTIFIER)
    for status, outcome in (("PENDED", "queued"), ("FAILED", "error"), ("CANCELLED", "complete")):
        stands = request.model_copy(update={"status": Status(status)})
        told = gateway.run(answers.read_response(stands, notifier))
        assert told["entry"][0]["resource"]["outcome"] == outcome


def test_a_request_that_is_taken_back_is_told_to_its_subscribers(parties: Parties) -> None:
    working = [
        each.name
        for each in SYSTEM.components
        if each.name not in ("agent", "operator", "pasrequestconverter")
    ]
    with opened_gateway(parties, *working) as own:
        made = own.post("/fhir/Subscription", wanted(own))
        assert made.json()["status"] == "active"
        pagw_id = own.accepted(build_request_bundle(reference=fresh("E"), npi=PROVIDER_NPIS[2]))
        own.ended(pagw_id, "acme", "ATTACHMENTS_PROCESSED")
        assert own.post(f"/pas/requests/{pagw_id}/cancel").status_code == 200
        told = "SELECT count(*) FROM pagw.deliveries WHERE pagw_id = %s AND status = 'delivered'"
        own._until(lambda: own.rows(told, pagw_id) == [(1,)])
        (delivery,) = own.get(f"/pas/requests/{pagw_id}/deliveries").json()["items"]
        assert delivery["subscriptionId"] == made.json()["id"]
        assert own.get(f"/pas/requests/{pagw_id}").json()["status"] == "CANCELLED"


class Suspicious:
    async def scan(self, body: bytes) -> ScanResult:
        return ScanResult("suspicious", b"infected" not in body)


@pytest.mark.parametrize(
    ("scanner", "content", "status", "found"),
    [
        (NoScanner(), b"Seen twice.", "COMPLETED", "not scanned"),
        (Suspicious(), b"Seen twice.", "COMPLETED", "clean"),
        (Suspicious(), b"infected", "FAILED", None),
    ],
)
def test_the_scanner_is_asked_and_what_it_says_is_audited(
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
    scanner: Any,
    content: bytes,
    status: str,
    found: str | None,
) -> None:
    monkeypatch.setattr(AttachmentHandler, "scanner", scanner)
    bundle = build_request_bundle(reference=fresh("E"), attachments=[SampleAttachment(content=content)])
    pagw_id = gateway.accepted(bundle)
    shown = gateway.ended(pagw_id)
    assert shown["status"] == status
    trail = gateway.get(f"/pas/requests/{pagw_id}/audit").json()["items"]
    scans = [each["details"]["scans"] for each in trail if each["details"] and "scans" in each["details"]]
    if found is None:
        assert scans == [] and shown["errorCode"] == "AttachmentRefused" and shown["attachments"] == []
    else:
        assert [(each["found"], each["attachment"]) for each in scans[0]] == [(found, 1)]
