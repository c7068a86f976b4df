"""Synthetic PAS bundles: requests, updates, cancellations and inquiries of patients who do not exist.

For the sample, the story, benchmarks and tests. The people are invented, with names and numbers found nowhere else, so
that a trace of one outside the objects that may hold it is certain to be a leak. The same arguments give the same
Bundle, ids included.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import UUID, uuid5

from pagw.fhir import urls
from pagw.fhir.npi import npi_of

MEMBER_SYSTEM: Final = "urn:example:member"
PAYER_SYSTEM: Final = "urn:example:payer"
CLAIM_SYSTEM: Final = "urn:example:claim"
TRANSACTION_SYSTEM: Final = "urn:example:transaction"
TRACE_SYSTEM: Final = "urn:example:item-trace"
CPT: Final = "http://www.ama-assn.org/go/cpt"
DEFAULT_PAYER: Final = "ACME-HEALTH"
CREATED: Final = datetime(2026, 3, 2, 15, 30, tzinfo=UTC)
_SPACE: Final = UUID("7f1d6a3e-0c55-4c8b-9b1e-6a1f7f0a2b44")
_URGENCY: Final = {"standard": "normal", "expedited": "stat"}


@dataclass(frozen=True, slots=True)
class Person:
    """A patient of the sample."""

    member_id: str
    family: str
    given: str
    born: str
    gender: Literal["female", "male"]
    line: str
    postal_code: str

    @property
    def secrets(self) -> tuple[str, ...]:
        """What of this person must be found in no row, message, log or error."""
        return (self.member_id, self.family, self.given, self.line)


PEOPLE: Final = (
    Person(
        "MZQ-4417-0001",
        "Quillfeather",
        "Ambrosine",
        "1971-02-03",
        "female",
        "12 Larkspindle Row",
        "02139-4307",
    ),
    Person(
        "MZQ-4417-0002", "Thistlewhorl", "Evander", "1958-11-21", "male", "8 Old Copperkettle Lane", "60614"
    ),
    Person(
        "MZQ-4417-0003",
        "Brambleknott",
        "Isolde",
        "1990-07-14",
        "female",
        "301 Umbrafield Court",
        "94110-2209",
    ),
    Person(
        "MZQ-4417-0004", "Winterspoon", "Leopold", "2016-05-30", "male", "77 Hollowbell Street", "73301-0001"
    ),
    Person("MZQ-4417-0005", "Marrowgate", "Philippa", "1983-09-09", "female", "5 Saltweather Quay", "98101"),
)
# Organizations that send requests, and a practitioner of each.
PROVIDER_NPIS: Final = tuple(npi_of(f"19930000{number}") for number in range(5))
PRACTITIONER_NPIS: Final = tuple(npi_of(f"18840000{number}") for number in range(5))


@dataclass(frozen=True, slots=True)
class SampleItem:
    """One service asked for. `change` and `cancelled` belong to an update; a sequence is given where none is told."""

    code: str
    system: str = CPT
    quantity: int = 1
    sequence: int | None = None
    change: Literal["added", "changed"] | None = None
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class SampleAttachment:
    """A document that goes with a request, inline or at an address."""

    content: bytes = b"The patient was seen twice and did not improve."
    content_type: str = "text/plain"
    url: str | None = None


def person(number: int) -> Person:
    """One of the people; beyond the last, one more who differs in member id and name."""
    base = PEOPLE[number % len(PEOPLE)]
    if number < len(PEOPLE):
        return base
    return Person(
        f"MZQ-4417-{number + 1:04d}",
        f"{base.family}{number}",
        base.given,
        base.born,
        base.gender,
        base.line,
        base.postal_code,
    )


def request_bundle(
    *,
    member: Person = PEOPLE[0],
    npi: str = PROVIDER_NPIS[0],
    payer: str = DEFAULT_PAYER,
    items: Sequence[str | SampleItem] = ("99213",),
    urgency: Literal["standard", "expedited"] = "standard",
    related: Mapping[str, Any] | None = None,
    attachments: Sequence[SampleAttachment] = (),
    reference: str = "R-1",
    created: datetime = CREATED,
) -> dict[str, Any]:
    """The Bundle of `$submit`. `reference` is the sender's number of the request; `related` the Bundle it updates."""
    made = _Maker(reference, member, npi, payer, created)
    asked = [_numbered(item, number) for number, item in enumerate(items, 1)]
    claim = made.claim(asked, urgency, [urls.CLAIM if related is None else urls.CLAIM_UPDATE])
    entries = made.parties()
    for number, attachment in enumerate(attachments, 1):
        entries.append(made.document(number, attachment))
        claim.setdefault("supportingInfo", []).append(made.supporting(number))
    if related is not None:
        claim["related"] = _related(related["entry"][0]["fullUrl"])
        entries += _with_prior(related, {entry["fullUrl"] for entry in entries})
    return made.bundle(urls.REQUEST_BUNDLE, claim, entries)


def update_bundle(
    former: Mapping[str, Any],
    *,
    reference: str,
    cancelled: Collection[int] = (),
    added: Sequence[str | SampleItem] = (),
    created: datetime = CREATED,
) -> dict[str, Any]:
    """An update of a former request: all that it asked for, some of it cancelled (by sequence), and more added."""
    prior = former["entry"][0]
    claim = deepcopy(prior["resource"])
    claim["id"] = _id("Claim", reference, prior["fullUrl"])
    claim["meta"] = {"profile": [urls.CLAIM_UPDATE]}
    claim["identifier"] = [_identifier(CLAIM_SYSTEM, reference)]
    claim["created"] = created.isoformat()
    claim["related"] = _related(prior["fullUrl"])
    for item in claim["item"]:
        # What the former update changed is not news.
        item["extension"] = [each for each in item["extension"] if each["url"] != urls.INFO_CHANGED]
        if item["sequence"] in cancelled:
            _cancel(item)
    last = max(item["sequence"] for item in claim["item"])
    for number, code in enumerate(added, last + 1):
        item = _item(replace(_numbered(code, number), change="added"), reference, created)
        claim["item"].append(item)
    return {
        **deepcopy(dict(former)),
        "id": _id("Bundle", claim["id"]),
        "identifier": _identifier(TRANSACTION_SYSTEM, reference),
        "timestamp": created.isoformat(),
        "entry": [{"fullUrl": f"urn:uuid:{claim['id']}", "resource": claim}, *_with_prior(former, ())],
    }


def cancel_bundle(
    former: Mapping[str, Any], *, reference: str, created: datetime = CREATED
) -> dict[str, Any]:
    """A cancellation of a whole former request."""
    sequences = [item["sequence"] for item in former["entry"][0]["resource"]["item"]]
    bundle = update_bundle(former, reference=reference, cancelled=sequences, created=created)
    bundle["entry"][0]["resource"]["extension"] = [_certification(urls.CANCEL)]
    return bundle


def inquiry_bundle(
    *,
    member: Person = PEOPLE[0],
    npi: str = PROVIDER_NPIS[0],
    payer: str = DEFAULT_PAYER,
    claim_reference: str | None = None,
    authorization_number: str | None = None,
    reference: str = "Q-1",
    created: datetime = CREATED,
) -> dict[str, Any]:
    """The Bundle of `$inquire`: by the claim's own number, by an authorization number, or by member and provider."""
    made = _Maker(reference, member, npi, payer, created)
    claim = made.claim([], "standard", [urls.CLAIM_INQUIRY])
    del claim["item"], claim["identifier"]
    if claim_reference is not None:
        claim["identifier"] = [{"system": CLAIM_SYSTEM, "value": claim_reference}]
    if authorization_number is not None:
        claim["insurance"][0]["preAuthRef"] = [authorization_number]
    return made.bundle(urls.INQUIRY_BUNDLE, claim, made.parties())


class _Maker:
    """Makes the resources of one Bundle, with addresses that follow from what they are of."""

    def __init__(self, reference: str, member: Person, npi: str, payer: str, created: datetime) -> None:
        self.reference, self.member, self.npi, self.payer, self.created = (
            reference,
            member,
            npi,
            payer,
            created,
        )
        # People and organizations are the same resource in every request; the claim is its own.
        self.patient_id = _id("Patient", member.member_id)
        self.provider_id, self.payer_id = _id("Organization", npi), _id("Organization", payer)
        self.practitioner_id = _id("Practitioner", npi)
        self.coverage_id = _id("Coverage", member.member_id, payer)
        self.claim_id = _id("Claim", reference, member.member_id, npi, payer)

    def claim(self, items: Sequence[SampleItem], urgency: str, profiles: list[str]) -> dict[str, Any]:
        return {
            "resourceType": "Claim",
            "id": self.claim_id,
            "meta": {"profile": profiles},
            "identifier": [{"system": CLAIM_SYSTEM, "value": self.reference}],
            "status": "active",
            "type": {"coding": [{"system": urls.CLAIM_TYPE, "code": "professional"}]},
            "use": "preauthorization",
            "patient": _to(self.patient_id),
            "created": self.created.isoformat(),
            "insurer": _to(self.payer_id),
            "provider": _to(self.provider_id),
            "priority": {"coding": [{"system": urls.PRIORITY, "code": _URGENCY[urgency]}]},
            "careTeam": [{"sequence": 1, "provider": _to(self.practitioner_id)}],
            "diagnosis": [
                {
                    "sequence": 1,
                    "diagnosisCodeableConcept": _concept("http://hl7.org/fhir/sid/icd-10-cm", "M54.5"),
                }
            ],
            "insurance": [{"sequence": 1, "focal": True, "coverage": _to(self.coverage_id)}],
            "item": [_item(item, self.reference, self.created) for item in items],
        }

    def parties(self) -> list[dict[str, Any]]:
        npi, who = self.npi, self.member
        return [
            _entry(
                self.provider_id,
                "Organization",
                active=True,
                name="Sample Clinic",
                identifier=[_identifier(urls.NPI, npi)],
            ),
            _entry(
                self.payer_id,
                "Organization",
                active=True,
                name="Sample Health Plan",
                identifier=[_identifier(PAYER_SYSTEM, self.payer)],
            ),
            _entry(
                self.practitioner_id,
                "Practitioner",
                identifier=[_identifier(urls.NPI, npi_of(f"1884{npi[4:9]}"))],
                name=[{"family": "Sampleton", "given": ["Robin"]}],
            ),
            _entry(
                self.patient_id,
                "Patient",
                identifier=[_identifier(MEMBER_SYSTEM, who.member_id)],
                name=[{"family": who.family, "given": [who.given]}],
                gender=who.gender,
                birthDate=who.born,
                address=[{"line": [who.line], "postalCode": who.postal_code, "country": "US"}],
            ),
            _entry(
                self.coverage_id,
                "Coverage",
                status="active",
                subscriberId=who.member_id,
                beneficiary=_to(self.patient_id),
                payor=[_to(self.payer_id)],
            ),
        ]

    def document(self, number: int, attachment: SampleAttachment) -> dict[str, Any]:
        content: dict[str, Any] = {"contentType": attachment.content_type}
        if attachment.url is not None:
            content["url"] = attachment.url
        else:
            content["data"] = base64.b64encode(attachment.content).decode()
        return _entry(
            self._document_id(number),
            "DocumentReference",
            status="current",
            type=_concept("http://loinc.org", "11505-5"),
            subject=_to(self.patient_id),
            content=[{"attachment": content}],
        )

    def supporting(self, number: int) -> dict[str, Any]:
        category = _concept(f"{urls.PAS}/CodeSystem/PASTempCodes", "additionalInformation")
        return {"sequence": number, "category": category, "valueReference": _to(self._document_id(number))}

    def bundle(self, profile: str, claim: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "resourceType": "Bundle",
            "id": _id("Bundle", self.claim_id),
            "meta": {"profile": [profile]},
            "identifier": _identifier(TRANSACTION_SYSTEM, self.reference),
            "type": "collection",
            "timestamp": self.created.isoformat(),
            "entry": [{"fullUrl": f"urn:uuid:{self.claim_id}", "resource": claim}, *entries],
        }

    def _document_id(self, number: int) -> str:
        return _id("DocumentReference", self.claim_id, str(number))


def _numbered(item: str | SampleItem, number: int) -> SampleItem:
    item = SampleItem(item) if isinstance(item, str) else item
    return item if item.sequence is not None else replace(item, sequence=number)


def _item(item: SampleItem, reference: str, created: datetime) -> dict[str, Any]:
    trace = _identifier(TRACE_SYSTEM, f"{reference}-{item.sequence}")
    made: dict[str, Any] = {
        "extension": [{"url": urls.ITEM_TRACE_NUMBER, "valueIdentifier": trace}, _certification("I")],
        "sequence": item.sequence,
        "careTeamSequence": [1],
        "diagnosisSequence": [1],
        "productOrService": _concept(item.system, item.code),
        "servicedDate": created.date().isoformat(),
        "quantity": {"value": item.quantity, "unit": "visit"},
    }
    if item.cancelled:
        _cancel(made)
    elif item.change is not None:
        made["extension"].append({"url": urls.INFO_CHANGED, "valueCode": item.change})
    return made


def _cancel(item: dict[str, Any]) -> None:
    kept = [each for each in item["extension"] if each["url"] != urls.CERTIFICATION_TYPE]
    item["extension"] = [
        *kept,
        _certification(urls.CANCEL),
        {"url": urls.INFO_CHANGED, "valueCode": "changed"},
    ]
    item["modifierExtension"] = [{"url": urls.INFO_CANCELLED, "valueBoolean": True}]


def _related(full_url: str) -> list[dict[str, Any]]:
    return [{"claim": {"reference": full_url}, "relationship": _concept(urls.RELATED_CLAIM, "prior")}]


def _with_prior(former: Mapping[str, Any], known: Collection[str]) -> list[dict[str, Any]]:
    """The former claim with all that it refers to; a claim that it updated itself stays out."""
    first = former["entry"][0]
    further = [each for each in former["entry"][1:] if each["resource"]["resourceType"] != "Claim"]
    return [deepcopy(entry) for entry in [first, *further] if entry["fullUrl"] not in known]


def _certification(code: str) -> dict[str, Any]:
    return {"url": urls.CERTIFICATION_TYPE, "valueCodeableConcept": _concept(urls.X12_CERTIFICATION, code)}


def _id(*parts: str) -> str:
    return str(uuid5(_SPACE, "/".join(parts)))


def _to(id: str) -> dict[str, str]:
    return {"reference": f"urn:uuid:{id}"}


def _concept(system: str, code: str) -> dict[str, Any]:
    return {"coding": [{"system": system, "code": code}]}


def _identifier(system: str, value: str) -> dict[str, str]:
    return {"system": system, "value": value}


def _entry(id: str, kind: str, **elements: Any) -> dict[str, Any]:
    return {"fullUrl": f"urn:uuid:{id}", "resource": {"resourceType": kind, "id": id, **elements}}
