"""A request in the gateway's own words: what `parsed_claim.json` holds and every later stage reads.

It is made of a Bundle that `pas_rules.check_request` found no error in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from pagw.fhir.items import trace_number
from pagw.fhir.npi import is_npi
from pagw.fhir.outcomes import FhirRefused, error
from pagw.fhir.parties_of_claim import coverages, identifier_of, identifiers, member_ids, npis
from pagw.fhir.references import Entry, Graph, extension, first_code, objects
from pagw.fhir.update_rules import certification_type, change_of, is_cancel, is_cancelled, prior_claim
from pagw.fhir.urls import AUTHORIZATION_NUMBER, LEVEL_OF_SERVICE

Intent = Literal["submit", "update", "cancel"]
Urgency = Literal["expedited", "standard"]

# X12 1338: an emergency, and urgent. Where the sender says so, the shorter clock runs.
URGENT_LEVELS: Final = frozenset({"03", "U"})
URGENT_PRIORITY: Final = "stat"


class _Parsed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Identifier(_Parsed):
    system: str | None = None
    value: str


class ClaimItem(_Parsed):
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


class AttachmentPointer(_Parsed):
    """Where an attachment stands in the Bundle. Its bytes are inline (`data`) or at an address (`url`)."""

    sequence: int
    path: tuple[str | int, ...]
    content_type: str | None = None
    is_inline: bool


class ParsedClaim(_Parsed):
    """One request. `related_*` name the claim that an update or a cancellation is about."""

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
        return self.payer.value


def parsed(bundle: Mapping[str, Any]) -> ParsedClaim:
    """The request that a checked Bundle makes; raises `FhirRefused` where what every stage needs is not there."""
    graph = Graph.of(bundle)
    claim = graph.first()
    if claim is None or claim.kind != "Claim":
        raise FhirRefused(
            [error("invariant", "Bundle.entry[0]: the first entry is not a Claim.", "Bundle.entry[0]")]
        )
    items = tuple(_item(each) for each in objects(claim.resource, "item"))
    service_from, service_to = _service_dates(claim.resource, items)
    found = coverages(graph, claim)
    return ParsedClaim(
        intent=_intent(claim.resource),
        claim_identifier=_first(claim.resource),
        bundle_identifier=_first({"identifier": [bundle.get("identifier")]}),
        claim_reference=claim.full_url,
        **_related(graph, claim),
        **_parties(graph, claim),
        coverage_reference=found[0][1].full_url if found else None,
        urgency=_urgency(claim.resource),
        items=items,
        diagnosis_codes=tuple(_diagnoses(claim.resource)),
        service_from=service_from,
        service_to=service_to,
        attachments=tuple(_attachments(graph, claim)),
    )


def attachment(bundle: Mapping[str, Any], pointer: AttachmentPointer) -> Mapping[str, Any]:
    """The Attachment element that a pointer leads to."""
    found: Any = bundle
    for step in pointer.path:
        found = found[step]
    return found if isinstance(found, dict) else {}


def _intent(claim: Mapping[str, Any]) -> Intent:
    if not objects(claim, "related"):
        return "submit"
    return "cancel" if is_cancel(claim) else "update"


def _related(graph: Graph, claim: Entry) -> dict[str, Any]:
    related = objects(claim.resource, "related")
    reference = related[0].get("claim") if related else None
    if not isinstance(reference, dict):
        return {}
    prior = prior_claim(graph, claim)
    named = _first(prior.resource) if prior is not None else None
    return {
        "related_reference": prior.full_url if prior is not None else reference.get("reference"),
        "related_identifier": named or _first({"identifier": [reference.get("identifier")]}),
    }


def _parties(graph: Graph, claim: Entry) -> dict[str, Any]:
    numbers = [each for each in npis(graph, claim.resource.get("provider"), claim) if is_npi(each)]
    payer = identifier_of(graph, claim.resource.get("insurer"), claim)
    members = member_ids(graph, claim)
    patient = graph.resource(claim.resource.get("patient"), claim)
    if not numbers or payer is None or not members or patient is None:
        raise FhirRefused(
            [error("required", f"{claim.path}: provider, insurer or member is not told.", claim.path)]
        )
    team = [npis(graph, each.get("provider"), claim) for each in objects(claim.resource, "careTeam")]
    return {
        "provider_npi": numbers[0],
        "care_team_npis": tuple(dict.fromkeys(each for some in team for each in some if is_npi(each))),
        "payer": Identifier(system=payer[0], value=payer[1]),
        "member_id": members[0],
        "member_ids": tuple(members),
        "patient_reference": patient[1].full_url,
    }


def _item(item: Mapping[str, Any]) -> ClaimItem:
    system, code = first_code(item.get("productOrService"))
    quantity = item.get("quantity")
    quantity = quantity if isinstance(quantity, dict) else {}
    service_from, service_to = _serviced(item)
    number = extension(item, AUTHORIZATION_NUMBER)
    return ClaimItem(
        sequence=item["sequence"],
        system=system,
        code=code,
        quantity=quantity.get("value"),
        unit=quantity.get("code") or quantity.get("unit"),
        service_from=service_from,
        service_to=service_to,
        trace_number=trace_number(item),
        certification_type=certification_type(item),
        authorization_number=number.get("valueString") if number is not None else None,
        info_changed=change_of(item),
        is_cancelled=is_cancelled(item),
    )


def _urgency(claim: Mapping[str, Any]) -> Urgency:
    level = extension(claim, LEVEL_OF_SERVICE)
    is_urgent_level = level is not None and first_code(level.get("valueCodeableConcept"))[1] in URGENT_LEVELS
    is_stat = first_code(claim.get("priority"))[1] == URGENT_PRIORITY
    return "expedited" if is_stat or is_urgent_level else "standard"


def _serviced(element: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The days of a service; a period without an end is open."""
    if isinstance(day := element.get("servicedDate"), str):
        return day, day
    return _period(element.get("servicedPeriod"))


def _service_dates(claim: Mapping[str, Any], items: tuple[ClaimItem, ...]) -> tuple[str | None, str | None]:
    """The first and the last day told by items, admission dates or the billable period."""
    spans = [(item.service_from, item.service_to) for item in items]
    spans += [_period(each.get("timingPeriod")) for each in objects(claim, "supportingInfo")]
    spans += [_period(claim.get("billablePeriod"))]
    begins = [begin for begin, _ in spans if begin is not None]
    ends = [end for _, end in spans if end is not None]
    return min(begins, default=None), max(ends, default=None)


def _period(period: Any) -> tuple[str | None, str | None]:
    return (period.get("start"), period.get("end")) if isinstance(period, dict) else (None, None)


def _diagnoses(claim: Mapping[str, Any]) -> Iterator[str]:
    for each in objects(claim, "diagnosis"):
        code = first_code(each.get("diagnosisCodeableConcept"))[1]
        if code is not None:
            yield code


def _attachments(graph: Graph, claim: Entry) -> Iterator[AttachmentPointer]:
    """Attachments of the supporting information: its own, and those of documents it refers to. Cancelled ones are out."""
    for place, info in enumerate(objects(claim.resource, "supportingInfo")):
        if is_cancelled(info):
            continue
        sequence = int(info["sequence"])
        if isinstance(own := info.get("valueAttachment"), dict):
            yield _pointer(sequence, (*_at(claim), "supportingInfo", place, "valueAttachment"), own)
        found = graph.resource(info.get("valueReference"), claim)
        if found is not None and found[0] is found[1].resource and found[1].kind == "DocumentReference":
            for part, content in enumerate(objects(found[0], "content")):
                path = (*_at(found[1]), "content", part, "attachment")
                yield _pointer(sequence, path, content.get("attachment"))


def _at(entry: Entry) -> tuple[str | int, ...]:
    return ("entry", entry.place, "resource")


def _pointer(sequence: int, path: tuple[str | int, ...], element: Any) -> AttachmentPointer:
    element = element if isinstance(element, dict) else {}
    kind = element.get("contentType")
    return AttachmentPointer(sequence=sequence, path=path, content_type=kind, is_inline="data" in element)


def _first(resource: Mapping[str, Any]) -> Identifier | None:
    found = next(identifiers(resource), None)
    return Identifier(system=found[0], value=found[1]) if found is not None else None
