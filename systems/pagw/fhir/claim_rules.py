"""What PAS asks of the Claim of a request or an inquiry: who it is from and for, and sequences that fit each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pagw.fhir.bundle_rules import profile_issues
from pagw.fhir.items import sequence_issues
from pagw.fhir.npi import is_npi
from pagw.fhir.outcomes import Issue, error, warning
from pagw.fhir.parties_of_claim import coverages, identifier_of, identifiers, member_ids, npis
from pagw.fhir.references import Entry, Graph, first_code, objects
from pagw.fhir.urls import CLAIM, CLAIM_INQUIRY, CLAIM_UPDATE, INFO_CANCELLED

_PROVIDERS: Final = frozenset({"Organization", "PractitionerRole", "Practitioner"})
# Lists of the claim whose entries are numbered, and the elements of an item that name those numbers.
_NUMBERED: Final = {
    "careTeam": "careTeamSequence",
    "diagnosis": "diagnosisSequence",
    "procedure": "procedureSequence",
    "supportingInfo": "informationSequence",
    "insurance": None,
}


def claim_issues(graph: Graph, claim: Entry, *, inquiry: bool = False) -> Iterator[Issue]:
    """All rules of one Claim; an inquiry need not have items."""
    path = claim.path
    yield from profile_issues(claim.resource, path, *([CLAIM_INQUIRY] if inquiry else [CLAIM, CLAIM_UPDATE]))
    if claim.resource.get("use") != "preauthorization":
        yield error("invalid", f"{path}.use: a PAS Claim is for preauthorization.", f"{path}.use")
    if claim.resource.get("status") != "active":
        yield error(
            "invalid", f"{path}.status: a PAS Claim is active, also one that cancels.", f"{path}.status"
        )
    if not inquiry and next(identifiers(claim.resource), None) is None:
        yield warning("required", f"{path}.identifier: by it a claim is found again.", f"{path}.identifier")
    yield from _payer_issues(graph, claim)
    yield from _provider_issues(graph, claim)
    yield from _member_issues(graph, claim)
    if not inquiry and not objects(claim.resource, "item"):
        yield error("required", f"{path}.item: a request asks for at least one item.", f"{path}.item")
    yield from sequence_issues(objects(claim.resource, "item"), f"{path}.item", "sequence")
    yield from _numbering_issues(claim)
    yield from _item_issues(claim)
    yield from _modifier_issues(claim)


def _payer_issues(graph: Graph, claim: Entry) -> Iterator[Issue]:
    path = f"{claim.path}.insurer"
    found = graph.resource(claim.resource.get("insurer"), claim)
    if found is None or found[0].get("resourceType") != "Organization":
        yield error("required", f"{path}: the insurer is an Organization of this Bundle.", path)
    elif identifier_of(graph, claim.resource.get("insurer"), claim) is None:
        yield error("required", f"{path}: the Organization of the insurer has no identifier.", path)


def _provider_issues(graph: Graph, claim: Entry) -> Iterator[Issue]:
    path = f"{claim.path}.provider"
    found = graph.resource(claim.resource.get("provider"), claim)
    if found is None or found[0].get("resourceType") not in _PROVIDERS:
        yield error("required", f"{path}: the provider is an Organization or a role of this Bundle.", path)
    else:
        numbers = npis(graph, claim.resource.get("provider"), claim)
        if not numbers:
            yield error("required", f"{path}: the provider has no NPI.", path)
        elif not any(map(is_npi, numbers)):
            yield error(
                "business-rule", f"{path}: the NPI of the provider has not ten digits that check.", path
            )
    for place, member in enumerate(objects(claim.resource, "careTeam")):
        if not all(map(is_npi, npis(graph, member.get("provider"), claim))):
            where = f"{claim.path}.careTeam[{place}].provider"
            yield warning("business-rule", f"{where}: the NPI has not ten digits that check.", where)


def _member_issues(graph: Graph, claim: Entry) -> Iterator[Issue]:
    patient = graph.resource(claim.resource.get("patient"), claim)
    path = f"{claim.path}.patient"
    if patient is None or patient[0].get("resourceType") != "Patient":
        yield error("required", f"{path}: the patient is a Patient of this Bundle.", path)
    elif not member_ids(graph, claim):
        yield error("required", f"{path}: neither the patient nor the coverage says a member id.", path)
    found = coverages(graph, claim)
    where = f"{claim.path}.insurance"
    if not found or any(each.get("resourceType") != "Coverage" for each, _ in found):
        yield error("required", f"{where}: the coverage is a Coverage of this Bundle.", f"{where}.coverage")
    elif patient is not None and all(
        _beneficiary(graph, each) not in {None, patient[1].place} for each in found
    ):
        yield warning("business-rule", f"{where}: the coverage is of another patient.", f"{where}.coverage")


def _beneficiary(graph: Graph, coverage: tuple[Any, Entry]) -> int | None:
    found = graph.resource(coverage[0].get("beneficiary"), coverage[1])
    return found[1].place if found is not None else None


def _numbering_issues(claim: Entry) -> Iterator[Issue]:
    """Numbers are positive and unique in their list, and an item names only numbers that are there."""
    for name, named_by in _NUMBERED.items():
        numbers: set[Any] = set()
        for place, each in enumerate(objects(claim.resource, name)):
            path = f"{claim.path}.{name}[{place}].sequence"
            number = each.get("sequence")
            if not isinstance(number, int) or number < 1:
                yield error("value", f"{path}: a sequence is a positive number.", path)
            elif number in numbers:
                yield error("duplicate", f"{path}: the sequence is used twice.", path)
            numbers.add(number)
        for place, item in enumerate(objects(claim.resource, "item") if named_by else []):
            path = f"{claim.path}.item[{place}].{named_by}"
            if not numbers.issuperset(_listed(item.get(str(named_by)))):
                yield error("not-found", f"{path}: no {name} has such a sequence.", path)


def _listed(value: Any) -> list[Any]:
    return [each for each in value if isinstance(each, int)] if isinstance(value, list) else []


def _item_issues(claim: Entry) -> Iterator[Issue]:
    for place, item in enumerate(objects(claim.resource, "item")):
        path = f"{claim.path}.item[{place}]"
        if first_code(item.get("productOrService"))[1] is None:
            wrong = f"{path}.productOrService: it names no code, so the payer cannot know what is asked for."
            yield warning("required", wrong, f"{path}.productOrService")
        quantity = item.get("quantity")
        if isinstance(quantity, dict) and not (
            "value" in quantity and ("unit" in quantity or "code" in quantity)
        ):
            where = f"{path}.quantity"
            yield error("invariant", f"{where}: a quantity has a value, and a unit or a code.", where)


def _modifier_issues(claim: Entry) -> Iterator[Issue]:
    """A modifier we do not know could turn the meaning round, so it is refused and never passed over."""
    holders = [(claim.path, claim.resource)]
    for name in ("item", "supportingInfo"):
        holders += [
            (f"{claim.path}.{name}[{n}]", each) for n, each in enumerate(objects(claim.resource, name))
        ]
    for path, holder in holders:
        if any(each.get("url") != INFO_CANCELLED for each in objects(holder, "modifierExtension")):
            where = f"{path}.modifierExtension"
            yield error(
                "not-supported", f"{where}: a modifier extension that the gateway does not know.", where
            )
