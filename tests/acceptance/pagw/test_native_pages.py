"""Pages: the audit of a request, and a tenant's subscriptions, of which it has no more than so many."""

from __future__ import annotations

import base64
from urllib.parse import urlsplit

import pytest

from holdfast.core.errors import InProgress
from pagw.api import subscriptions
from pagw.demo.sample.bundles import build_request_bundle
from pagw.model import patterns
from tests.acceptance.pagw.gateway import Gateway, Parties, fresh, outcome_of
from tests.acceptance.pagw.gateway import gateway as opened_gateway
from tests.acceptance.pagw.test_fhir import wanted


def test_the_audit_of_a_request_comes_in_pages(still: Gateway) -> None:
    pagw_id = still.accepted()
    for _ in range(5):
        still.get(f"/pas/requests/{pagw_id}/bundle")
    path = f"/pas/requests/{pagw_id}/audit"
    whole = still.get(path).json()
    assert len(whole["items"]) == 6 and whole["cursor"] is None
    seen, address = [], f"{path}?limit=2"
    for left in (4, 2, 0):
        page = still.get(address).json()
        assert len(page["items"]) == 2 and (page["cursor"] is None) == (left == 0)
        seen += page["items"]
        address = f"{path}?limit=2&cursor={page['cursor']}"
    assert seen == whole["items"]
    for wrong in ("cursor=x", "cursor=-1", f"cursor={'9' * 30}", "limit=0"):
        outcome_of(still.get(f"{path}?{wrong}"), 400, "value")


def test_subscriptions_come_in_pages_and_are_no_more_than_so_many(
    parties: Parties, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "LIVE_MAX", 3)
    with opened_gateway(parties, "api") as own:
        ids = [own.post("/fhir/Subscription", wanted(own)).json()["id"] for _ in range(3)]
        outcome_of(own.post("/fhir/Subscription", wanted(own)), 422, "business-rule")
        assert own.post("/fhir/Subscription", wanted(own), "zenith").status_code == 201
        path, seen = "/fhir/Subscription?limit=2", []
        while path:
            page = own.get(path).json()
            seen += [each["resource"]["id"] for each in page["entry"]]
            following = [urlsplit(each["url"]) for each in page.get("link", []) if each["relation"] == "next"]
            path = f"{following[0].path}?{following[0].query}" if following else ""
        assert seen == ids
        # One that is ended makes room.
        ended = own.http.delete(f"/fhir/Subscription/{ids[0]}", headers=own.headers())
        assert ended.status_code == 204
        assert own.post("/fhir/Subscription", wanted(own)).status_code == 201


def test_a_repeat_while_the_first_is_under_way_is_told_to_come_soon(
    still: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def running(*_: object) -> None:
        raise InProgress("The request under this idempotency key is being worked on.", retry_after_s=30.0)

    monkeypatch.setattr(patterns.SUBMISSIONS, "claim", running)
    refused = len(still.audit("REFUSED"))
    answer = still.submit(build_request_bundle(reference=fresh("R")))
    outcome_of(answer, 409, "duplicate")
    assert int(answer.headers["retry-after"]) <= 2
    # A row for each copy would be a flood.
    assert len(still.audit("REFUSED")) == refused


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_a_cursor_that_is_in_no_calendar_is_refused(still: Gateway, at: str) -> None:
    cursor = base64.urlsafe_b64encode(f"{at}|x".encode()).decode()
    outcome_of(still.get(f"/pas/requests?cursor={cursor}"), 400, "value")
    outcome_of(still.get(f"/fhir/Subscription?cursor={cursor}"), 400, "value")
