"""PAS rules for the Claim of a request or an inquiry: its participants, and consistent sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pagw.domain.fhir.claim_participants import (
    find_coverages,
    find_identifier,
    find_member_ids,
    find_npis,
)
from pagw.domain.fhir.npi import is_npi
from pagw.domain.fhir.outcomes import Issue, build_error, build_warning
from pagw.domain.fhir.references import Entry, Graph, get_first_code, get_objects
from pagw.domain.fhir.rules.bundle_rules import check_profile
from pagw.domain.fhir.rules.item_rules import check_sequences
from pagw.domain.fhir.urls import CLAIM, CLAIM_INQUIRY, CLAIM_UPDATE, INFO_CANCELLED

_PROVIDER_TYPES: Final = frozenset({"Organization", "PractitionerRole", "Practitioner"})
# The claim's numbered lists, and the element of an item that refers to each.
_NUMBERED_LISTS: Final = {
    "careTeam": "careTeamSequence",
    "diagnosis": "diagnosisSequence",
    "procedure": "procedureSequence",
    "supportingInfo": "informationSequence",
    "insurance": None,
}


def check_claim(graph: Graph, claim: Entry, *, inquiry: bool = False) -> Iterator[Issue]:
    """Check one Claim against all rules. An inquiry does not need items."""
    path = claim.path
    yield from check_profile(claim.resource, path, *([CLAIM_INQUIRY] if inquiry else [CLAIM, CLAIM_UPDATE]))
    if claim.resource.get("use") != "preauthorization":
        yield build_error("invalid", f"{path}.use: expected `preauthorization`.", f"{path}.use")
    if claim.resource.get("status") != "active":
        yield build_error(
            "invalid", f"{path}.status: expected `active`, also for a cancellation.", f"{path}.status"
        )
    yield from _check_payer(graph, claim)
    yield from _check_provider(graph, claim)
    yield from _check_member(graph, claim)
    yield from check_sequences(get_objects(claim.resource, "item"), f"{path}.item", "sequence")
    yield from _check_numbering(claim, is_example=inquiry)
    yield from _check_items(claim)
    yield from _check_modifiers(claim)


def _check_payer(graph: Graph, claim: Entry) -> Iterator[Issue]:
    """Check that the insurer is an Organization of the Bundle with an identifier."""
    path = f"{claim.path}.insurer"
    found = graph.resolve(claim.resource.get("insurer"), claim)
    if found is None or found[0].get("resourceType") != "Organization":
        yield build_error(
            "required", f"{path}: expected a reference to an Organization of this Bundle.", path
        )
    elif find_identifier(graph, claim.resource.get("insurer"), claim) is None:
        yield build_error("required", f"{path}: the insurer's Organization needs an identifier.", path)


def _check_provider(graph: Graph, claim: Entry) -> Iterator[Issue]:
    """Check that the provider is in the Bundle with a valid NPI. Warn about invalid NPIs in the care team."""
    path = f"{claim.path}.provider"
    found = graph.resolve(claim.resource.get("provider"), claim)
    if found is None or found[0].get("resourceType") not in _PROVIDER_TYPES:
        yield build_error(
            "required",
            f"{path}: expected a reference to an Organization or a practitioner of this Bundle.",
            path,
        )
    else:
        numbers = find_npis(graph, claim.resource.get("provider"), claim)
        if not numbers:
            yield build_error("required", f"{path}: the provider needs an NPI.", path)
        elif not any(map(is_npi, numbers)):
            yield build_error(
                "business-rule", f"{path}: invalid NPI: expected ten digits with a valid check digit.", path
            )
    for place, member in enumerate(get_objects(claim.resource, "careTeam")):
        if not all(map(is_npi, find_npis(graph, member.get("provider"), claim))):
            where = f"{claim.path}.careTeam[{place}].provider"
            yield build_warning(
                "business-rule", f"{where}: invalid NPI: expected ten digits with a valid check digit.", where
            )


def _check_member(graph: Graph, claim: Entry) -> Iterator[Issue]:
    """Check that patient, member id and coverage are in the Bundle. Warn if the coverage is another
    patient's.
    """
    patient = graph.resolve(claim.resource.get("patient"), claim)
    path = f"{claim.path}.patient"
    if patient is None or patient[0].get("resourceType") != "Patient":
        yield build_error("required", f"{path}: expected a reference to a Patient of this Bundle.", path)
    elif not find_member_ids(graph, claim):
        yield build_error("required", f"{path}: the patient or the coverage needs a member id.", path)
    found = find_coverages(graph, claim)
    where = f"{claim.path}.insurance"
    if not found or any(each.get("resourceType") != "Coverage" for each, _ in found):
        yield build_error(
            "required", f"{where}: expected a reference to a Coverage of this Bundle.", f"{where}.coverage"
        )
    elif patient is not None and all(
        _find_beneficiary(graph, each) not in {None, patient[1].index} for each in found
    ):
        yield build_warning(
            "business-rule",
            f"{where}: the beneficiary of the coverage is another patient.",
            f"{where}.coverage",
        )


def _find_beneficiary(graph: Graph, coverage: tuple[Any, Entry]) -> int | None:
    """Return the index of the entry with the coverage's beneficiary, or None."""
    found = graph.resolve(coverage[0].get("beneficiary"), coverage[1])
    return found[1].index if found is not None else None


def _check_numbering(claim: Entry, *, is_example: bool) -> Iterator[Issue]:
    """Check that sequences are positive and unique in their list, and that items name existing sequences.

    The Claim of an inquiry is an example of a search, so what its items name may be left out: a warning.
    """
    build_missing = build_warning if is_example else build_error
    for name, named_by in _NUMBERED_LISTS.items():
        numbers: set[Any] = set()
        for place, each in enumerate(get_objects(claim.resource, name)):
            path = f"{claim.path}.{name}[{place}].sequence"
            number = each.get("sequence")
            if not isinstance(number, int) or number < 1:
                yield build_error("value", f"{path}: expected a positive integer.", path)
            elif number in numbers:
                yield build_error("duplicate", f"{path}: another entry has the same sequence.", path)
            numbers.add(number)
        for place, item in enumerate(get_objects(claim.resource, "item") if named_by else []):
            path = f"{claim.path}.item[{place}].{named_by}"
            if not numbers.issuperset(_get_integers(item.get(str(named_by)))):
                yield build_missing("not-found", f"{path}: no {name} has this sequence.", path)


def _get_integers(value: Any) -> list[Any]:
    """Return the integers of a list; empty if the value is not a list."""
    return [each for each in value if isinstance(each, int)] if isinstance(value, list) else []


def _check_items(claim: Entry) -> Iterator[Issue]:
    """Warn about an item without a service code, and about a quantity without value or unit."""
    for place, item in enumerate(get_objects(claim.resource, "item")):
        path = f"{claim.path}.item[{place}]"
        if get_first_code(item.get("productOrService"))[1] is None:
            wrong = f"{path}.productOrService: a code is missing, so the payer does not know the service."
            yield build_warning("required", wrong, f"{path}.productOrService")
        quantity = item.get("quantity")
        if isinstance(quantity, dict) and not (
            "value" in quantity and ("unit" in quantity or "code" in quantity)
        ):
            where = f"{path}.quantity"
            yield build_warning("invariant", f"{where}: a quantity needs a value and a unit.", where)


def _check_modifiers(claim: Entry) -> Iterator[Issue]:
    """Refuse unknown modifier extensions, because each could reverse the meaning of its element."""
    holders = [(claim.path, claim.resource)]
    for name in ("item", "supportingInfo"):
        holders += [
            (f"{claim.path}.{name}[{n}]", each) for n, each in enumerate(get_objects(claim.resource, name))
        ]
    for path, holder in holders:
        if any(each.get("url") != INFO_CANCELLED for each in get_objects(holder, "modifierExtension")):
            where = f"{path}.modifierExtension"
            yield build_error(
                "not-supported", f"{where}: the gateway does not support this modifier extension.", where
            )
