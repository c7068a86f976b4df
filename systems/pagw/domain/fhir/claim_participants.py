"""Lookup of a Claim's participants: providers by NPI, payer, coverages and member ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pagw.domain.fhir.references import Entry, Graph, get_objects
from pagw.domain.fhir.urls import NPI

# References of a role that may lead to an NPI: first the person, then the organization.
_ROLE_REFERENCES: Final = ("practitioner", "organization")


def find_npis(graph: Graph, reference: Any, origin: Entry) -> list[str]:
    """Return the NPIs of the provider that a reference leads to, a role's own first, valid or not. Without
    any, return the NPI in the reference's own identifier.
    """
    found = graph.resolve(reference, origin)
    numbers = _get_npis(found[0]) if found is not None else []
    if found is not None and found[0].get("resourceType") == "PractitionerRole":
        for name in _ROLE_REFERENCES:
            behind = graph.resolve(found[0].get(name), found[1])
            numbers += _get_npis(behind[0]) if behind is not None else []
    identifier = reference.get("identifier") if isinstance(reference, dict) else None
    if not numbers and isinstance(identifier, dict):
        numbers = _get_npis({"identifier": [identifier]})
    return list(dict.fromkeys(numbers))


def find_identifier(graph: Graph, reference: Any, origin: Entry) -> tuple[str | None, str] | None:
    """Return system and value of the first identifier of the referenced resource, or None."""
    found = graph.resolve(reference, origin)
    return next(iterate_identifiers(found[0]), None) if found is not None else None


def iterate_identifiers(resource: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    """Yield system and value of each identifier that has a value."""
    for each in get_objects(resource, "identifier"):
        if isinstance(value := each.get("value"), str) and value.strip():
            system = each.get("system")
            yield (system if isinstance(system, str) else None), value.strip()


def find_coverages(graph: Graph, claim: Entry) -> list[tuple[Mapping[str, Any], Entry]]:
    """Return the claim's coverages with their entries, the focal one first."""
    insurances = sorted(
        get_objects(claim.resource, "insurance"), key=lambda each: each.get("focal") is not True
    )
    found = (graph.resolve(each.get("coverage"), claim) for each in insurances)
    return [each for each in found if each is not None]


def find_member_ids(graph: Graph, claim: Entry) -> list[str]:
    """Return the ids by which the payer knows the patient: the patient's identifiers, then the coverages'
    ids.
    """
    ids: list[str] = []
    patient = graph.resolve(claim.resource.get("patient"), claim)
    if patient is not None:
        ids += [value for _, value in iterate_identifiers(patient[0])]
    for coverage, _ in find_coverages(graph, claim):
        if isinstance(subscriber := coverage.get("subscriberId"), str) and subscriber.strip():
            ids.append(subscriber.strip())
        ids += [value for _, value in iterate_identifiers(coverage)]
    return list(dict.fromkeys(ids))


def _get_npis(resource: Mapping[str, Any]) -> list[str]:
    """Return the values of a resource's NPI identifiers, valid or not."""
    return [value for system, value in iterate_identifiers(resource) if system == NPI]
