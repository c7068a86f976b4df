"""Who a Claim speaks of: the provider by NPI, the payer, the patient and the member. For rules, claims and inquiries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pagw.fhir.references import Entry, Graph, objects
from pagw.fhir.urls import NPI

# From a role to the person, then to the organization: where an NPI may stand.
_BEHIND_A_ROLE: Final = ("practitioner", "organization")


def npis(graph: Graph, reference: Any, origin: Entry) -> list[str]:
    """The NPIs of the provider a reference leads to, a role's own first, valid or not."""
    found = graph.resource(reference, origin)
    told = _npis_of(found[0]) if found is not None else []
    if found is not None and found[0].get("resourceType") == "PractitionerRole":
        for name in _BEHIND_A_ROLE:
            behind = graph.resource(found[0].get(name), found[1])
            told += _npis_of(behind[0]) if behind is not None else []
    identifier = reference.get("identifier") if isinstance(reference, dict) else None
    if not told and isinstance(identifier, dict):
        told = _npis_of({"identifier": [identifier]})
    return list(dict.fromkeys(told))


def identifier_of(graph: Graph, reference: Any, origin: Entry) -> tuple[str | None, str] | None:
    """System and value of the first identifier of what a reference leads to."""
    found = graph.resource(reference, origin)
    return next(identifiers(found[0]), None) if found is not None else None


def identifiers(resource: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    for each in objects(resource, "identifier"):
        if isinstance(value := each.get("value"), str) and value.strip():
            system = each.get("system")
            yield (system if isinstance(system, str) else None), value.strip()


def coverages(graph: Graph, claim: Entry) -> list[tuple[Mapping[str, Any], Entry]]:
    """The coverages of a claim, the focal one first."""
    insurances = sorted(objects(claim.resource, "insurance"), key=lambda each: each.get("focal") is not True)
    found = (graph.resource(each.get("coverage"), claim) for each in insurances)
    return [each for each in found if each is not None]


def member_ids(graph: Graph, claim: Entry) -> list[str]:
    """By what the payer knows the patient: the patient's identifiers, then subscriber ids of the coverages."""
    told: list[str] = []
    patient = graph.resource(claim.resource.get("patient"), claim)
    if patient is not None:
        told += [value for _, value in identifiers(patient[0])]
    for coverage, _ in coverages(graph, claim):
        if isinstance(subscriber := coverage.get("subscriberId"), str) and subscriber.strip():
            told.append(subscriber.strip())
        told += [value for _, value in identifiers(coverage)]
    return list(dict.fromkeys(told))


def _npis_of(resource: Mapping[str, Any]) -> list[str]:
    return [value for system, value in identifiers(resource) if system == NPI]
