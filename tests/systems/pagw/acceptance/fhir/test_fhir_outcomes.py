"""Outcomes over HTTP: failures after a pended answer, cancellations, and results of virus scans."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast_demo.pagw.sample.bundles import (
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
from pagw.workers.responses import ResponseReader
from pagw.workers.stages.attachment_handler import AttachmentHandler
from pagw.workers.webhook_sender import NOTIFIER
from tests.systems.pagw.acceptance.fhir.test_fhir import build_subscription
from tests.systems.pagw.acceptance.gateway import ExternalServices, Gateway, make_unique, start_gateway

PENDED = "70551"
FAIL_REQUEST = (
    "UPDATE pagw.request_tracker SET status = 'FAILED', stage = 'done', error_code = 'PAYER_NONSENSE', "
    "error_message = 'The payer answered nonsense.', completed_at = updated_at WHERE pagw_id = %s RETURNING "
    "pagw_id"
)


def get_outcome(bundle: dict[str, Any]) -> tuple[str, bool]:
    """Return the outcome of the ClaimResponse, and whether the Bundle names the error."""
    claim_response = bundle["entry"][0]["resource"]
    return claim_response["outcome"], "PAYER_NONSENSE" in json.dumps(bundle)


def test_failure_after_a_pended_answer_is_reported_everywhere(gateway: Gateway) -> None:
    reference = make_unique("E")
    bundle = build_request_bundle(reference=reference, items=[PENDED])
    answer = gateway.submit_claim(bundle)
    pagw_id = answer.headers["x-pagw-id"]
    assert get_outcome(answer.json()) == ("queued", False)
    gateway.wait_for_end(pagw_id, "acme", "PENDED")
    assert gateway.rows(FAIL_REQUEST, pagw_id)
    again = gateway.submit_claim(bundle)
    read = gateway.get(f"/pas/requests/{pagw_id}/response")
    (found,) = gateway.post("/fhir/Claim/$inquire", build_inquiry_bundle(claim_reference=reference)).json()[
        "parameter"
    ]
    for response in (again.json(), read.json(), found["resource"]):
        assert get_outcome(response) == ("error", True)
    assert again.json() == read.json()


def test_notifier_may_read_everything_an_answer_needs(gateway: Gateway) -> None:
    pagw_id = gateway.submit_accepted(build_request_bundle(reference=make_unique("E"), items=[PENDED]))
    gateway.wait_for_end(pagw_id, "acme", "PENDED")
    request = gateway.run(gateway.stores.run(patterns.request("acme", pagw_id)))
    answers, notifier = ResponseReader(gateway.stores.for_component("pasnotifier")), Actor.service(NOTIFIER)
    for status, outcome in (("PENDED", "queued"), ("FAILED", "error"), ("CANCELLED", "complete")):
        stands = request.model_copy(update={"status": Status(status)})
        response = gateway.run(answers.read_response(stands, notifier))
        assert response["entry"][0]["resource"]["outcome"] == outcome


def test_cancelled_request_is_announced_to_its_subscribers(external_services: ExternalServices) -> None:
    working = [
        each.name
        for each in SYSTEM.components
        if each.name not in ("agent", "operator", "pasrequestconverter")
    ]
    with start_gateway(external_services, *working) as own:
        made = own.post("/fhir/Subscription", build_subscription(own))
        assert made.json()["status"] == "active"
        pagw_id = own.submit_accepted(build_request_bundle(reference=make_unique("E"), npi=PROVIDER_NPIS[2]))
        own.wait_for_end(pagw_id, "acme", "ATTACHMENTS_PROCESSED")
        assert own.post(f"/pas/requests/{pagw_id}/cancel").status_code == 200
        count_delivered = "SELECT count(*) FROM pagw.deliveries WHERE pagw_id = %s AND status = 'delivered'"
        own.wait_until(lambda: own.rows(count_delivered, pagw_id) == [(1,)])
        (delivery,) = own.get(f"/pas/requests/{pagw_id}/deliveries").json()["items"]
        assert delivery["subscriptionId"] == made.json()["id"]
        assert own.get(f"/pas/requests/{pagw_id}").json()["status"] == "CANCELLED"


class FakeScanner:
    """Scanner that refuses a body with the word "infected"."""

    async def scan(self, body: bytes) -> ScanResult:
        return ScanResult("suspicious", b"infected" not in body)


@pytest.mark.parametrize(
    ("scanner", "content", "status", "found"),
    [
        (NoScanner(), b"Seen twice.", "COMPLETED", "not scanned"),
        (FakeScanner(), b"Seen twice.", "COMPLETED", "clean"),
        (FakeScanner(), b"infected", "FAILED", None),
    ],
)
def test_scan_result_is_audited_or_fails_the_request(
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
    scanner: Any,
    content: bytes,
    status: str,
    found: str | None,
) -> None:
    monkeypatch.setattr(AttachmentHandler, "scanner", scanner)
    bundle = build_request_bundle(reference=make_unique("E"), attachments=[SampleAttachment(content=content)])
    pagw_id = gateway.submit_accepted(bundle)
    shown = gateway.wait_for_end(pagw_id)
    assert shown["status"] == status
    trail = gateway.get(f"/pas/requests/{pagw_id}/audit").json()["items"]
    scans = [each["details"]["scans"] for each in trail if each["details"] and "scans" in each["details"]]
    if found is None:
        assert scans == [] and shown["errorCode"] == "AttachmentRefused" and shown["attachments"] == []
    else:
        assert [(each["found"], each["attachment"]) for each in scans[0]] == [(found, 1)]
