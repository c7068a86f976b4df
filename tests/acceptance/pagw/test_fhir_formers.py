"""Updates and cancellations reach the request that they are of, and no other patient's."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from pagw.demo.sample.bundles import (
    PEOPLE,
    PROVIDER_NPIS,
    build_cancel_bundle,
    build_request_bundle,
    build_update_bundle,
)
from tests.acceptance.pagw.gateway import Gateway, fresh, outcome_of


def claim_of(bundle: dict[str, Any]) -> dict[str, Any]:
    claim: dict[str, Any] = bundle["entry"][0]["resource"]
    return claim


def submitted(gateway: Gateway, bundle: dict[str, Any]) -> str:
    pagw_id = gateway.accepted(bundle)
    gateway.ended(pagw_id)
    return pagw_id


def naming(bundle: dict[str, Any], named: dict[str, str]) -> dict[str, Any]:
    """Its claim is of the one that is named so, and brings no former claim along."""
    made = build_cancel_bundle(bundle, reference=fresh("C"))
    first, *others = made["entry"]
    claim_of(made)["related"][0]["claim"] = {"identifier": named}
    made["entry"] = [first, *(each for each in others if each["resource"]["resourceType"] != "Claim")]
    return made


def status(gateway: Gateway, pagw_id: str) -> str:
    return str(gateway.get(f"/pas/requests/{pagw_id}").json()["status"])


def test_the_same_number_of_another_system_is_another_claim(gateway: Gateway) -> None:
    reference = fresh("F")
    ours = build_request_bundle(reference=reference)
    # The same patient's, so that nothing but the system tells them apart.
    theirs = build_request_bundle(reference=reference)
    claim_of(ours)["identifier"][0]["system"] = "https://ehr-one.example/claims"
    claim_of(theirs)["identifier"][0]["system"] = "https://ehr-two.example/claims"
    first, second = submitted(gateway, ours), submitted(gateway, theirs)
    cancelled = gateway.claim(build_cancel_bundle(ours, reference=fresh("C")))
    assert gateway.get(f"/pas/requests/{cancelled.headers['x-pagw-id']}").json()["replaces"] == first
    gateway.ended(first, "acme", "CANCELLED")
    assert status(gateway, second) == "COMPLETED"


def test_nobody_cancels_or_updates_what_is_about_another_member_or_of_another_provider(
    gateway: Gateway,
) -> None:
    former = build_request_bundle(reference=fresh("F"), member=PEOPLE[1])
    pagw_id = submitted(gateway, former)
    names = [claim_of(former)["identifier"][0], {"system": "urn:pagw:request", "value": pagw_id}]
    for named in names:
        for wrong in ({"member": PEOPLE[4]}, {"member": PEOPLE[1], "npi": PROVIDER_NPIS[4]}):
            made = naming(build_request_bundle(reference=fresh("F"), **wrong), named)
            outcome_of(gateway.claim(made), 422, "not-found")
    assert status(gateway, pagw_id) == "COMPLETED"
    right = naming(build_request_bundle(reference=fresh("F"), member=PEOPLE[1]), names[1])
    assert gateway.claim(right).status_code == 200
    assert gateway.ended(pagw_id, "acme", "CANCELLED")["status"] == "CANCELLED"


def test_of_several_that_fit_none_is_guessed(gateway: Gateway) -> None:
    reference = fresh("F")
    former = build_request_bundle(reference=reference, member=PEOPLE[2])
    again = deepcopy(former)
    again["identifier"]["value"] = fresh("again")
    first, second = submitted(gateway, former), submitted(gateway, again)
    told = outcome_of(gateway.claim(build_cancel_bundle(former, reference=fresh("C"))), 422, "conflict")
    assert "matches several requests" in told["issue"][0]["diagnostics"]
    assert {status(gateway, first), status(gateway, second)} == {"COMPLETED"}
    named = naming(former, {"system": "urn:pagw:request", "value": first})
    assert gateway.claim(named).status_code == 200
    gateway.ended(first, "acme", "CANCELLED")
    # What was cancelled is not meant any more.
    assert gateway.claim(build_cancel_bundle(former, reference=fresh("C"))).status_code == 200
    gateway.ended(second, "acme", "CANCELLED")


def test_an_update_under_the_same_number_takes_the_place_of_what_it_updates(gateway: Gateway) -> None:
    former = build_request_bundle(reference=fresh("F"), items=["70551"])
    pagw_id = gateway.claim(former).headers["x-pagw-id"]
    updated = build_update_bundle(former, reference=fresh("U"), added=["99213"])
    claim_of(updated)["identifier"] = claim_of(former)["identifier"]
    second = gateway.claim(updated).headers["x-pagw-id"]
    cancelled = gateway.claim(build_cancel_bundle(updated, reference=fresh("C")))
    assert cancelled.status_code == 200, cancelled.text
    replaced = gateway.get(f"/pas/requests/{cancelled.headers['x-pagw-id']}").json()["replaces"]
    assert replaced == second != pagw_id


def test_a_claim_that_nothing_names_is_refused(still: Gateway) -> None:
    before = still.stored()
    nameless = build_request_bundle(reference=fresh("F"))
    del nameless["identifier"]
    told = outcome_of(still.claim(nameless), 400, "required")
    assert "X-Idempotency-Key" in told["issue"][0]["diagnostics"]
    assert still.stored() == before
    assert still.claim(nameless, **{"x-idempotency-key": fresh("key")}).status_code == 200
