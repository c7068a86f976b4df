"""Updates and cancellations over HTTP: they reach the request they name, never another patient's."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from holdfast_demo.pagw.sample.bundles import (
    PEOPLE,
    PROVIDER_NPIS,
    build_cancel_bundle,
    build_request_bundle,
    build_update_bundle,
)
from tests.systems.pagw.acceptance.gateway import Gateway, expect_outcome, make_unique


def get_claim(bundle: dict[str, Any]) -> dict[str, Any]:
    claim: dict[str, Any] = bundle["entry"][0]["resource"]
    return claim


def submit_and_wait(gateway: Gateway, bundle: dict[str, Any]) -> str:
    """Submit a bundle through the native API, wait until it has ended, and return its id."""
    pagw_id = gateway.submit_accepted(bundle)
    gateway.wait_for_end(pagw_id)
    return pagw_id


def build_cancellation_of(bundle: dict[str, Any], identifier: dict[str, str]) -> dict[str, Any]:
    """Build a cancellation that names its claim by this identifier and does not include the former claim."""
    made = build_cancel_bundle(bundle, reference=make_unique("C"))
    first, *others = made["entry"]
    get_claim(made)["related"][0]["claim"] = {"identifier": identifier}
    made["entry"] = [first, *(each for each in others if each["resource"]["resourceType"] != "Claim")]
    return made


def get_status(gateway: Gateway, pagw_id: str) -> str:
    return str(gateway.get(f"/pas/requests/{pagw_id}").json()["status"])


def test_cancels_the_claim_of_its_system_if_two_have_the_same_number(gateway: Gateway) -> None:
    reference = make_unique("F")
    ours = build_request_bundle(reference=reference)
    # The same patient, so that only the system distinguishes them.
    theirs = build_request_bundle(reference=reference)
    get_claim(ours)["identifier"][0]["system"] = "https://ehr-one.example/claims"
    get_claim(theirs)["identifier"][0]["system"] = "https://ehr-two.example/claims"
    first, second = submit_and_wait(gateway, ours), submit_and_wait(gateway, theirs)
    cancelled = gateway.submit_claim(build_cancel_bundle(ours, reference=make_unique("C")))
    assert gateway.get(f"/pas/requests/{cancelled.headers['x-pagw-id']}").json()["replaces"] == first
    gateway.wait_for_end(first, "acme", "CANCELLED")
    assert get_status(gateway, second) == "COMPLETED"


def test_refuses_a_cancellation_for_another_member_or_provider(gateway: Gateway) -> None:
    former = build_request_bundle(reference=make_unique("F"), member=PEOPLE[1])
    pagw_id = submit_and_wait(gateway, former)
    names = [get_claim(former)["identifier"][0], {"system": "urn:pagw:request", "value": pagw_id}]
    for named in names:
        for wrong in ({"member": PEOPLE[4]}, {"member": PEOPLE[1], "npi": PROVIDER_NPIS[4]}):
            made = build_cancellation_of(build_request_bundle(reference=make_unique("F"), **wrong), named)
            expect_outcome(gateway.submit_claim(made), 422, "not-found")
    assert get_status(gateway, pagw_id) == "COMPLETED"
    right = build_cancellation_of(
        build_request_bundle(reference=make_unique("F"), member=PEOPLE[1]), names[1]
    )
    assert gateway.submit_claim(right).status_code == 200
    assert gateway.wait_for_end(pagw_id, "acme", "CANCELLED")["status"] == "CANCELLED"


def test_refuses_an_ambiguous_cancellation(gateway: Gateway) -> None:
    reference = make_unique("F")
    former = build_request_bundle(reference=reference, member=PEOPLE[2])
    again = deepcopy(former)
    again["identifier"]["value"] = make_unique("again")
    first, second = submit_and_wait(gateway, former), submit_and_wait(gateway, again)
    outcome = expect_outcome(
        gateway.submit_claim(build_cancel_bundle(former, reference=make_unique("C"))), 422, "conflict"
    )
    assert "matches several requests" in outcome["issue"][0]["diagnostics"]
    assert {get_status(gateway, first), get_status(gateway, second)} == {"COMPLETED"}
    named = build_cancellation_of(former, {"system": "urn:pagw:request", "value": first})
    assert gateway.submit_claim(named).status_code == 200
    gateway.wait_for_end(first, "acme", "CANCELLED")
    # A cancelled request no longer makes the claim ambiguous.
    assert gateway.submit_claim(build_cancel_bundle(former, reference=make_unique("C"))).status_code == 200
    gateway.wait_for_end(second, "acme", "CANCELLED")


def test_cancellation_reaches_the_update_if_both_have_the_same_identifier(gateway: Gateway) -> None:
    former = build_request_bundle(reference=make_unique("F"), items=["70551"])
    pagw_id = gateway.submit_claim(former).headers["x-pagw-id"]
    updated = build_update_bundle(former, reference=make_unique("U"), added=["99213"])
    get_claim(updated)["identifier"] = get_claim(former)["identifier"]
    second = gateway.submit_claim(updated).headers["x-pagw-id"]
    cancelled = gateway.submit_claim(build_cancel_bundle(updated, reference=make_unique("C")))
    assert cancelled.status_code == 200, cancelled.text
    replaced = gateway.get(f"/pas/requests/{cancelled.headers['x-pagw-id']}").json()["replaces"]
    assert replaced == second != pagw_id


def test_refuses_a_bundle_without_identifier_even_with_a_key(idle_gateway: Gateway) -> None:
    before = idle_gateway.count_stored()
    nameless = build_request_bundle(reference=make_unique("F"))
    del nameless["identifier"]
    outcome = expect_outcome(idle_gateway.submit_claim(nameless), 400, "required")
    assert "X-Idempotency-Key" in outcome["issue"][0]["diagnostics"]
    answer = idle_gateway.submit_claim(nameless, **{"x-idempotency-key": make_unique("key")})
    outcome = expect_outcome(answer, 422, "required")
    assert outcome["issue"][0]["expression"] == ["Bundle.identifier"]
    assert idle_gateway.count_stored() == before
