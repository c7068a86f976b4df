"""A request as the gateway's own model: the content of `parsed_claim.json`, which every later stage reads.

It is parsed from a Bundle in which `pas_rules.check_request` found no error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from pagw.domain.fhir.claim_participants import (
    find_coverages,
    find_identifier,
    find_member_ids,
    find_npis,
    iterate_identifiers,
)
from pagw.domain.fhir.npi import is_npi
from pagw.domain.fhir.outcomes import FhirRefused, build_error
from pagw.domain.fhir.references import Entry, Graph, find_extension, get_first_code, get_objects
from pagw.domain.fhir.rules.item_rules import get_trace_number
from pagw.domain.fhir.rules.update_rules import (
    find_prior_claim,
    get_certification_type,
    get_change,
    is_cancellation,
    is_cancelled,
)
from pagw.domain.fhir.urls import AUTHORIZATION_NUMBER, LEVEL_OF_SERVICE

Intent = Literal["submit", "update", "cancel"]
Urgency = Literal["expedited", "standard"]

# X12 1338: emergency and urgent. Either makes the request expedited, with the shorter deadline.
URGENT_LEVELS: Final = frozenset({"03", "U"})
URGENT_PRIORITY: Final = "stat"


class _ClaimModel(BaseModel):
    """Base of the claim's models: immutable, no unknown fields, no values in errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Identifier(_ClaimModel):
    """A FHIR identifier."""

    system: str | None = None
    value: str


class ClaimItem(_ClaimModel):
    """One item of a claim."""

    sequence: int
    system: str | None = None
    code: str | None = None
    quantity: float | None = None
    unit: str | None = None
    service_from: str | None = None
    service_to: str | None = None
    trace_number: str | None = None
    certification_type: str | None = None
    authorization_number: str | None = None
    info_changed: str | None = None
    is_cancelled: bool = False


class AttachmentPointer(_ClaimModel):
    """The location of an attachment in the Bundle. Its bytes are inline (`data`) or at a URL (`url`)."""

    sequence: int
    path: tuple[str | int, ...]
    content_type: str | None = None
    is_inline: bool


class ParsedClaim(_ClaimModel):
    """One request. `related_*` name the claim that an update or a cancellation changes."""

    intent: Intent
    claim_identifier: Identifier | None = None
    bundle_identifier: Identifier | None = None
    claim_reference: str
    related_reference: str | None = None
    related_identifier: Identifier | None = None
    provider_npi: str
    care_team_npis: tuple[str, ...] = ()
    payer: Identifier
    member_id: str
    member_ids: tuple[str, ...]
    patient_reference: str
    coverage_reference: str | None = None
    urgency: Urgency
    items: tuple[ClaimItem, ...]
    diagnosis_codes: tuple[str, ...] = ()
    service_from: str | None = None
    service_to: str | None = None
    attachments: tuple[AttachmentPointer, ...] = ()

    @property
    def payer_id(self) -> str:
        """Return the payer's identifier without its system."""
        return self.payer.value


def parse_claim(bundle: Mapping[str, Any]) -> ParsedClaim:
    """Parse a checked Bundle. Raise `FhirRefused` if an element that every stage needs is missing."""
    graph = Graph.from_bundle(bundle)
    claim = graph.get_first()
    if claim is None or claim.kind != "Claim":
        raise FhirRefused(
            [
                build_error(
                    "invariant", "Bundle.entry[0]: expected a Claim as the first entry.", "Bundle.entry[0]"
                )
            ]
        )
    items = tuple(_parse_item(each) for each in get_objects(claim.resource, "item"))
    service_from, service_to = _get_service_dates(claim.resource, items)
    found = find_coverages(graph, claim)
    return ParsedClaim(
        intent=_get_intent(claim.resource),
        claim_identifier=_get_identifier(claim.resource),
        bundle_identifier=_get_identifier({"identifier": [bundle.get("identifier")]}),
        claim_reference=claim.full_url,
        **_find_related(graph, claim),
        **_find_participants(graph, claim),
        coverage_reference=found[0][1].full_url if found else None,
        urgency=_get_urgency(claim.resource),
        items=items,
        diagnosis_codes=tuple(_iterate_diagnoses(claim.resource)),
        service_from=service_from,
        service_to=service_to,
        attachments=tuple(_iterate_attachments(graph, claim)),
    )


def get_attachment(bundle: Mapping[str, Any], pointer: AttachmentPointer) -> Mapping[str, Any]:
    """Return the Attachment element at a pointer; empty if the element there is not an object."""
    found: Any = bundle
    for step in pointer.path:
        found = found[step]
    return found if isinstance(found, dict) else {}


def _get_intent(claim: Mapping[str, Any]) -> Intent:
    """Return `submit` without `Claim.related`, `cancel` if the whole request is cancelled, else `update`."""
    if not get_objects(claim, "related"):
        return "submit"
    return "cancel" if is_cancellation(claim) else "update"


def _find_related(graph: Graph, claim: Entry) -> dict[str, Any]:
    """Return the fields `related_*` of a claim that names another; empty otherwise."""
    related = get_objects(claim.resource, "related")
    reference = related[0].get("claim") if related else None
    if not isinstance(reference, dict):
        return {}
    prior = find_prior_claim(graph, claim)
    named = _get_identifier(prior.resource) if prior is not None else None
    return {
        "related_reference": prior.full_url if prior is not None else reference.get("reference"),
        "related_identifier": named or _get_identifier({"identifier": [reference.get("identifier")]}),
    }


def _find_participants(graph: Graph, claim: Entry) -> dict[str, Any]:
    """Return the fields of provider, care team, payer, member and patient. Raise `FhirRefused` if one of them
    is missing (the care team may be).
    """
    numbers = [each for each in find_npis(graph, claim.resource.get("provider"), claim) if is_npi(each)]
    payer = find_identifier(graph, claim.resource.get("insurer"), claim)
    members = find_member_ids(graph, claim)
    patient = graph.resolve(claim.resource.get("patient"), claim)
    if not numbers or payer is None or not members or patient is None:
        raise FhirRefused(
            [build_error("required", f"{claim.path}: provider, insurer or member is missing.", claim.path)]
        )
    team = [find_npis(graph, each.get("provider"), claim) for each in get_objects(claim.resource, "careTeam")]
    return {
        "provider_npi": numbers[0],
        "care_team_npis": tuple(dict.fromkeys(each for some in team for each in some if is_npi(each))),
        "payer": Identifier(system=payer[0], value=payer[1]),
        "member_id": members[0],
        "member_ids": tuple(members),
        "patient_reference": patient[1].full_url,
    }


def _parse_item(item: Mapping[str, Any]) -> ClaimItem:
    """Parse one item of the Claim, with its service, dates, numbers and change flags."""
    system, code = get_first_code(item.get("productOrService"))
    quantity = item.get("quantity")
    quantity = quantity if isinstance(quantity, dict) else {}
    service_from, service_to = _get_service_period(item)
    number = find_extension(item, AUTHORIZATION_NUMBER)
    return ClaimItem(
        sequence=item["sequence"],
        system=system,
        code=code,
        quantity=quantity.get("value"),
        unit=quantity.get("code") or quantity.get("unit"),
        service_from=service_from,
        service_to=service_to,
        trace_number=get_trace_number(item),
        certification_type=get_certification_type(item),
        authorization_number=number.get("valueString") if number is not None else None,
        info_changed=get_change(item),
        is_cancelled=is_cancelled(item),
    )


def _get_urgency(claim: Mapping[str, Any]) -> Urgency:
    """Return `expedited` if the priority or the level of service says so, else `standard`."""
    level = find_extension(claim, LEVEL_OF_SERVICE)
    is_urgent_level = (
        level is not None and get_first_code(level.get("valueCodeableConcept"))[1] in URGENT_LEVELS
    )
    is_stat = get_first_code(claim.get("priority"))[1] == URGENT_PRIORITY
    return "expedited" if is_stat or is_urgent_level else "standard"


def _get_service_period(element: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the first and last day of a service, None for each that is missing."""
    if isinstance(day := element.get("servicedDate"), str):
        return day, day
    return _get_period(element.get("servicedPeriod"))


def _get_service_dates(
    claim: Mapping[str, Any], items: tuple[ClaimItem, ...]
) -> tuple[str | None, str | None]:
    """Return the first and last day over items, admission dates and the billable period; None if no day is
    given.
    """
    spans = [(item.service_from, item.service_to) for item in items]
    spans += [_get_period(each.get("timingPeriod")) for each in get_objects(claim, "supportingInfo")]
    spans += [_get_period(claim.get("billablePeriod"))]
    begins = [begin for begin, _ in spans if begin is not None]
    ends = [end for _, end in spans if end is not None]
    return min(begins, default=None), max(ends, default=None)


def _get_period(period: Any) -> tuple[str | None, str | None]:
    """Return start and end of a FHIR Period; None for each that is missing."""
    return (period.get("start"), period.get("end")) if isinstance(period, dict) else (None, None)


def _iterate_diagnoses(claim: Mapping[str, Any]) -> Iterator[str]:
    """Yield the codes of the diagnoses that have one."""
    for each in get_objects(claim, "diagnosis"):
        code = get_first_code(each.get("diagnosisCodeableConcept"))[1]
        if code is not None:
            yield code


def _iterate_attachments(graph: Graph, claim: Entry) -> Iterator[AttachmentPointer]:
    """Yield the attachments of the supporting information and of the documents it refers to, except cancelled
    ones.
    """
    for place, info in enumerate(get_objects(claim.resource, "supportingInfo")):
        if is_cancelled(info):
            continue
        sequence = int(info["sequence"])
        if isinstance(own := info.get("valueAttachment"), dict):
            yield _build_pointer(
                sequence, (*_get_path(claim), "supportingInfo", place, "valueAttachment"), own
            )
        found = graph.resolve(info.get("valueReference"), claim)
        if found is not None and found[0] is found[1].resource and found[1].kind == "DocumentReference":
            for part, content in enumerate(get_objects(found[0], "content")):
                path = (*_get_path(found[1]), "content", part, "attachment")
                yield _build_pointer(sequence, path, content.get("attachment"))


def _get_path(entry: Entry) -> tuple[str | int, ...]:
    return ("entry", entry.index, "resource")


def _build_pointer(sequence: int, path: tuple[str | int, ...], element: Any) -> AttachmentPointer:
    """Build the pointer to the Attachment `element` at `path` in the Bundle."""
    element = element if isinstance(element, dict) else {}
    kind = element.get("contentType")
    return AttachmentPointer(sequence=sequence, path=path, content_type=kind, is_inline="data" in element)


def _get_identifier(resource: Mapping[str, Any]) -> Identifier | None:
    """Return the first identifier of a resource that has a value, or None."""
    found = next(iterate_identifiers(resource), None)
    return Identifier(system=found[0], value=found[1]) if found is not None else None
