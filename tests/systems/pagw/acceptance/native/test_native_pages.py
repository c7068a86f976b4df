"""Pagination over HTTP of audit events and subscriptions, their limit, and running duplicates."""

from __future__ import annotations

import base64
from urllib.parse import urlsplit

import pytest

from holdfast.core.errors import InternalError
from holdfast.guarantees import Claim
from holdfast_demo.pagw.sample.bundles import build_request_bundle
from pagw.api import subscriptions
from pagw.model.patterns import SUBMISSION_LEASE_S
from pagw.workers.intake import Intake
from tests.systems.pagw.acceptance.fhir.test_fhir import build_subscription
from tests.systems.pagw.acceptance.gateway import (
    ExternalServices,
    Gateway,
    expect_outcome,
    make_unique,
    start_gateway,
)


def test_audit_of_a_request_is_paginated(idle_gateway: Gateway) -> None:
    pagw_id = idle_gateway.submit_accepted()
    for _ in range(5):
        idle_gateway.get(f"/pas/requests/{pagw_id}/bundle")
    path = f"/pas/requests/{pagw_id}/audit"
    whole = idle_gateway.get(path).json()
    assert len(whole["items"]) == 6 and whole["cursor"] is None
    seen, address = [], f"{path}?limit=2"
    for left in (4, 2, 0):
        page = idle_gateway.get(address).json()
        assert len(page["items"]) == 2 and (page["cursor"] is None) == (left == 0)
        seen += page["items"]
        address = f"{path}?limit=2&cursor={page['cursor']}"
    assert seen == whole["items"]
    for wrong in ("cursor=x", "cursor=-1", f"cursor={'9' * 30}", "limit=0"):
        expect_outcome(idle_gateway.get(f"{path}?{wrong}"), 400, "value")


def test_subscriptions_are_paginated_and_limited(
    external_services: ExternalServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MAX_LIVE", 3)
    with start_gateway(external_services, "api") as own:
        ids = [own.post("/fhir/Subscription", build_subscription(own)).json()["id"] for _ in range(3)]
        expect_outcome(own.post("/fhir/Subscription", build_subscription(own)), 422, "business-rule")
        assert own.post("/fhir/Subscription", build_subscription(own), "zenith").status_code == 201
        path, seen = "/fhir/Subscription?limit=2", []
        while path:
            page = own.get(path).json()
            seen += [each["resource"]["id"] for each in page["entry"]]
            following = [urlsplit(each["url"]) for each in page.get("link", []) if each["relation"] == "next"]
            path = f"{following[0].path}?{following[0].query}" if following else ""
        assert seen == ids
        # An ended subscription makes room for another.
        ended = own.http.delete(f"/fhir/Subscription/{ids[0]}", headers=own.headers())
        assert ended.status_code == 204
        assert own.post("/fhir/Subscription", build_subscription(own)).status_code == 201


def test_duplicate_in_progress_gets_the_lease_as_its_retry_after_and_no_audit_row(
    idle_gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(*_: object) -> None:
        raise InternalError("The process ends here.")

    async def keep_claim(*_: object) -> None:
        """Release nothing, as a process that was killed."""

    bundle, key = build_request_bundle(reference=make_unique("R")), make_unique("k")
    with monkeypatch.context() as patch:
        patch.setattr(Intake, "_track", crash)
        patch.setattr(Claim, "release", keep_claim)
        assert idle_gateway.submit(bundle, key=key).status_code == 500
    refused = len(idle_gateway.read_audit("REFUSED"))
    answer = idle_gateway.submit(bundle, key=key)
    expect_outcome(answer, 409, "duplicate")
    assert SUBMISSION_LEASE_S - 3 <= int(answer.headers["retry-after"]) <= SUBMISSION_LEASE_S
    # One audit row per duplicate would flood the audit.
    assert len(idle_gateway.read_audit("REFUSED")) == refused


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_refuses_a_cursor_with_an_impossible_time(idle_gateway: Gateway, at: str) -> None:
    cursor = base64.urlsafe_b64encode(f"{at}|x".encode()).decode()
    expect_outcome(idle_gateway.get(f"/pas/requests?cursor={cursor}"), 400, "value")
    expect_outcome(idle_gateway.get(f"/fhir/Subscription?cursor={cursor}"), 400, "value")
