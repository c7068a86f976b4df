"""Synthetic PAS bundles: requests, updates, cancellations and inquiries of invented patients.

For the sample, the story, benchmarks and tests. Names and numbers occur nowhere else, so that a trace of one
outside of the objects with PHI is certainly a leak. The same arguments give the same Bundle, ids included.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import UUID, uuid5

from pagw.domain.fhir import urls
from pagw.domain.fhir.npi import build_npi

MEMBER_SYSTEM: Final = "urn:example:member"
PAYER_SYSTEM: Final = "urn:example:payer"
CLAIM_SYSTEM: Final = "urn:example:claim"
TRANSACTION_SYSTEM: Final = "urn:example:transaction"
TRACE_SYSTEM: Final = "urn:example:item-trace"
CPT: Final = "http://www.ama-assn.org/go/cpt"
# A consultation, in the office of the practitioner.
_SERVICE_TYPE: Final = ("https://codesystem.x12.org/005010/1365", "3")
_REQUEST_TYPE: Final = ("https://codesystem.x12.org/005010/1525", "HS")
_PLACE: Final = (
    "https://www.cms.gov/Medicare/Coding/place-of-service-codes/Place_of_Service_Code_Set",
    "11",
)
_MEMBER_NUMBER: Final = ("http://terminology.hl7.org/CodeSystem/v2-0203", "MB")
_ABSENT: Final = "http://hl7.org/fhir/StructureDefinition/data-absent-reason"
_NOTE_CATEGORY: Final = (
    "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
    "clinical-note",
)
DEFAULT_PAYER: Final = "ACME-HEALTH"
CREATED: Final = datetime(2026, 3, 2, 15, 30, tzinfo=UTC)
_NAMESPACE: Final = UUID("7f1d6a3e-0c55-4c8b-9b1e-6a1f7f0a2b44")
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
        """Values of this person that must not occur in any row, message, log or error."""
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
PROVIDER_NPIS: Final = tuple(build_npi(f"19930000{number}") for number in range(5))
PRACTITIONER_NPIS: Final = tuple(build_npi(f"18840000{number}") for number in range(5))


@dataclass(frozen=True, slots=True)
class SampleItem:
    """A requested service. `change` and `cancelled` are for updates. Without a `sequence`, items are
    numbered.
    """

    code: str
    system: str = CPT
    quantity: int = 1
    sequence: int | None = None
    change: Literal["added", "changed"] | None = None
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class SampleAttachment:
    """A document of a request, inline or by url."""

    content: bytes = b"The patient was seen twice and did not improve."
    content_type: str = "text/plain"
    url: str | None = None


def get_person(number: int) -> Person:
    """Return one of PEOPLE; beyond the last, a variant with another member id and name."""
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


def build_request_bundle(
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
    """Return a Bundle for `$submit`. `reference` is the sender's number of the request, `related` the Bundle
    that it updates.
    """
    builder = _BundleBuilder(reference, member, npi, payer, created)
    numbered_items = [_number_item(item, number) for number, item in enumerate(items, 1)]
    claim = builder.build_claim(
        numbered_items, urgency, [urls.CLAIM if related is None else urls.CLAIM_UPDATE]
    )
    entries = builder.build_participants()
    for number, attachment in enumerate(attachments, 1):
        entries.append(builder.build_document(number, attachment))
        claim.setdefault("supportingInfo", []).append(
            builder.build_supporting_info(number, is_inline=attachment.url is None)
        )
    if related is not None:
        claim["related"] = _build_related(related["entry"][0]["fullUrl"])
        entries += _copy_prior_entries(related, {entry["fullUrl"] for entry in entries})
    return builder.build_bundle(urls.REQUEST_BUNDLE, claim, entries)


def build_update_bundle(
    former: Mapping[str, Any],
    *,
    reference: str,
    cancelled: Collection[int] = (),
    added: Sequence[str | SampleItem] = (),
    created: datetime = CREATED,
) -> dict[str, Any]:
    """Return an update of an earlier request: its items, some cancelled (by sequence), and others added."""
    prior = former["entry"][0]
    claim = deepcopy(prior["resource"])
    claim["id"] = _build_id("Claim", reference, prior["fullUrl"])
    claim["meta"] = {"profile": [urls.CLAIM_UPDATE]}
    claim["identifier"] = [_build_identifier(CLAIM_SYSTEM, reference)]
    claim["created"] = created.isoformat()
    claim["related"] = _build_related(prior["fullUrl"])
    for item in claim["item"]:
        # Drop the change marks of an earlier update.
        item["extension"] = [each for each in item["extension"] if each["url"] != urls.INFO_CHANGED]
        if item["sequence"] in cancelled:
            _cancel_item(item)
    last = max(item["sequence"] for item in claim["item"])
    for number, code in enumerate(added, last + 1):
        item = _build_item(replace(_number_item(code, number), change="added"), reference, created)
        claim["item"].append(item)
    return {
        **deepcopy(dict(former)),
        "id": _build_id("Bundle", claim["id"]),
        "identifier": _build_identifier(TRANSACTION_SYSTEM, reference),
        "timestamp": created.isoformat(),
        "entry": [
            {"fullUrl": f"urn:uuid:{claim['id']}", "resource": claim},
            *_copy_prior_entries(former, ()),
        ],
    }


def build_cancel_bundle(
    former: Mapping[str, Any], *, reference: str, created: datetime = CREATED
) -> dict[str, Any]:
    """Return the cancellation of a whole earlier request."""
    sequences = [item["sequence"] for item in former["entry"][0]["resource"]["item"]]
    bundle = build_update_bundle(former, reference=reference, cancelled=sequences, created=created)
    bundle["entry"][0]["resource"]["extension"] = [_build_certification(urls.CANCEL)]
    return bundle


def build_inquiry_bundle(
    *,
    member: Person = PEOPLE[0],
    npi: str = PROVIDER_NPIS[0],
    payer: str = DEFAULT_PAYER,
    claim_reference: str | None = None,
    authorization_number: str | None = None,
    reference: str = "Q-1",
    created: datetime = CREATED,
) -> dict[str, Any]:
    """Return a Bundle for `$inquire`: by claim reference, authorization number, or member and provider."""
    builder = _BundleBuilder(reference, member, npi, payer, created)
    claim = builder.build_claim([], "standard", [urls.CLAIM_INQUIRY])
    del claim["item"]
    # PAS 2.2.1 demands an identifier, which a search by other values does not have.
    absent = {"extension": [{"url": _ABSENT, "valueCode": "unknown"}]}
    claim["identifier"] = [{"_system": absent, "_value": absent}]
    if claim_reference is not None:
        claim["identifier"] = [_build_identifier(CLAIM_SYSTEM, claim_reference)]
    if authorization_number is not None:
        claim["insurance"][0]["preAuthRef"] = [authorization_number]
    return builder.build_bundle(urls.INQUIRY_BUNDLE, claim, builder.build_participants())


class _BundleBuilder:
    """Builds the resources of one Bundle. Their ids are derived from the arguments."""

    def __init__(self, reference: str, member: Person, npi: str, payer: str, created: datetime) -> None:
        self.reference, self.member, self.npi, self.payer, self.created = (
            reference,
            member,
            npi,
            payer,
            created,
        )
        # People and organizations have the same ids in every request; the claim's depends on its reference.
        self.patient_id = _build_id("Patient", member.member_id)
        self.provider_id, self.payer_id = _build_id("Organization", npi), _build_id("Organization", payer)
        self.practitioner_id = _build_id("Practitioner", npi)
        self.role_id = _build_id("PractitionerRole", npi)
        self.coverage_id = _build_id("Coverage", member.member_id, payer)
        self.claim_id = _build_id("Claim", reference, member.member_id, npi, payer)

    def build_claim(self, items: Sequence[SampleItem], urgency: str, profiles: list[str]) -> dict[str, Any]:
        """Build the Claim with these items. `profiles` are the canonical URLs in its `meta`."""
        return {
            "resourceType": "Claim",
            "id": self.claim_id,
            "meta": {"profile": profiles},
            "identifier": [{"system": CLAIM_SYSTEM, "value": self.reference}],
            "status": "active",
            "type": {"coding": [{"system": urls.CLAIM_TYPE, "code": "professional"}]},
            "use": "preauthorization",
            "patient": _build_reference(self.patient_id),
            "created": self.created.isoformat(),
            "insurer": _build_reference(self.payer_id),
            "provider": _build_reference(self.provider_id),
            "priority": {"coding": [{"system": urls.PRIORITY, "code": _URGENCY[urgency]}]},
            "careTeam": [
                {
                    "extension": [{"url": urls.CARE_TEAM_SCOPE, "valueBoolean": True}],
                    "sequence": 1,
                    "provider": _build_reference(self.role_id),
                }
            ],
            "diagnosis": [
                {
                    "sequence": 1,
                    "diagnosisCodeableConcept": _build_concept("http://hl7.org/fhir/sid/icd-10-cm", "M54.5"),
                }
            ],
            "insurance": [{"sequence": 1, "focal": True, "coverage": _build_reference(self.coverage_id)}],
            "item": [_build_item(item, self.reference, self.created) for item in items],
        }

    def build_participants(self) -> list[dict[str, Any]]:
        """Build the entries of provider, payer, practitioner, patient, coverage and practitioner role."""
        npi, member = self.npi, self.member
        return [
            _build_entry(
                self.provider_id,
                "Organization",
                active=True,
                name="Sample Clinic",
                identifier=[_build_identifier(urls.NPI, npi)],
            ),
            _build_entry(
                self.payer_id,
                "Organization",
                active=True,
                name="Sample Health Plan",
                identifier=[_build_identifier(PAYER_SYSTEM, self.payer)],
            ),
            _build_entry(
                self.practitioner_id,
                "Practitioner",
                identifier=[_build_identifier(urls.NPI, build_npi(f"1884{npi[4:9]}"))],
                name=[{"family": "Sampleton", "given": ["Robin"]}],
            ),
            _build_entry(
                self.patient_id,
                "Patient",
                identifier=[_build_identifier(MEMBER_SYSTEM, member.member_id)],
                name=[{"family": member.family, "given": [member.given]}],
                gender=member.gender,
                birthDate=member.born,
                address=[{"line": [member.line], "postalCode": member.postal_code, "country": "US"}],
            ),
            _build_entry(
                self.coverage_id,
                "Coverage",
                status="active",
                identifier=[
                    {
                        "type": _build_concept(*_MEMBER_NUMBER),
                        **_build_identifier(MEMBER_SYSTEM, member.member_id),
                    }
                ],
                subscriber=_build_reference(self.patient_id),
                subscriberId=member.member_id,
                relationship=_build_concept(
                    "http://terminology.hl7.org/CodeSystem/subscriber-relationship", "self"
                ),
                beneficiary=_build_reference(self.patient_id),
                payor=[_build_reference(self.payer_id)],
            ),
            _build_entry(
                self.role_id,
                "PractitionerRole",
                practitioner=_build_reference(self.practitioner_id),
                telecom=[{"system": "phone", "value": "+1-555-0100"}],
            ),
        ]

    def build_document(self, number: int, attachment: SampleAttachment) -> dict[str, Any]:
        """Build the entry of attachment `number`, a DocumentReference."""
        content: dict[str, Any] = {"contentType": attachment.content_type}
        if attachment.url is not None:
            content["url"] = attachment.url
        else:
            content["data"] = base64.b64encode(attachment.content).decode()
        return _build_entry(
            self._build_document_id(number),
            "DocumentReference",
            status="current",
            type=_build_concept("http://loinc.org", "11505-5"),
            category=[_build_concept(*_NOTE_CATEGORY)],
            subject=_build_reference(self.patient_id),
            content=[{"attachment": content}],
        )

    def build_supporting_info(self, number: int, *, is_inline: bool = True) -> dict[str, Any]:
        """Build the claim's reference to attachment `number`.

        PAS 2.2.1 demands that additional information is inline. Elsewhere it is an `attachment`.
        """
        reference = {"valueReference": _build_reference(self._build_document_id(number))}
        if not is_inline:
            category = _build_concept(
                "http://terminology.hl7.org/CodeSystem/claiminformationcategory", "attachment"
            )
            return {"sequence": number, "category": category, **reference}
        category = _build_concept(f"{urls.PAS}/CodeSystem/PASTempCodes", "additionalInformation")
        report = {
            "url": "reportTypeCode",
            "valueCodeableConcept": _build_concept("https://codesystem.x12.org/005010/755", "OZ"),
        }
        return {
            "extension": [{"url": urls.DOCUMENT_INFORMATION, "extension": [report]}],
            "sequence": number,
            "category": category,
            **reference,
        }

    def build_bundle(
        self, profile: str, claim: dict[str, Any], entries: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Build the Bundle: the claim first, then the entries. `profile` is its canonical URL."""
        return {
            "resourceType": "Bundle",
            "id": _build_id("Bundle", self.claim_id),
            "meta": {"profile": [profile]},
            "identifier": _build_identifier(TRANSACTION_SYSTEM, self.reference),
            "type": "collection",
            "timestamp": self.created.isoformat(),
            "entry": [{"fullUrl": f"urn:uuid:{self.claim_id}", "resource": claim}, *entries],
        }

    def _build_document_id(self, number: int) -> str:
        return _build_id("DocumentReference", self.claim_id, str(number))


def _number_item(item: str | SampleItem, number: int) -> SampleItem:
    """Return the item with a sequence: its own, or else `number`. A text is the item's code."""
    item = SampleItem(item) if isinstance(item, str) else item
    return item if item.sequence is not None else replace(item, sequence=number)


def _build_item(item: SampleItem, reference: str, created: datetime) -> dict[str, Any]:
    """Build the FHIR element of an item, with its trace number and its change flags."""
    trace = _build_identifier(TRACE_SYSTEM, f"{reference}-{item.sequence}")
    resource: dict[str, Any] = {
        "extension": [
            {"url": urls.ITEM_TRACE_NUMBER, "valueIdentifier": trace},
            {"url": urls.REQUEST_TYPE, "valueCodeableConcept": _build_concept(*_REQUEST_TYPE)},
            _build_certification("I"),
        ],
        "sequence": item.sequence,
        "careTeamSequence": [1],
        "diagnosisSequence": [1],
        "category": _build_concept(*_SERVICE_TYPE),
        "productOrService": _build_concept(item.system, item.code),
        "servicedDate": created.date().isoformat(),
        "locationCodeableConcept": _build_concept(*_PLACE),
        "quantity": {"value": item.quantity, "unit": "visit"},
    }
    if item.cancelled:
        _cancel_item(resource)
    elif item.change is not None:
        resource["extension"].append({"url": urls.INFO_CHANGED, "valueCode": item.change})
    return resource


def _cancel_item(item: dict[str, Any]) -> None:
    """Flag a FHIR item as cancelled, in place."""
    kept = [each for each in item["extension"] if each["url"] != urls.CERTIFICATION_TYPE]
    item["extension"] = [
        *kept,
        _build_certification(urls.CANCEL),
        {"url": urls.INFO_CHANGED, "valueCode": "changed"},
    ]
    item["modifierExtension"] = [{"url": urls.INFO_CANCELLED, "valueBoolean": True}]


def _build_related(full_url: str) -> list[dict[str, Any]]:
    """Build `Claim.related`, which names the claim at this fullUrl as the prior one."""
    return [{"claim": {"reference": full_url}, "relationship": _build_concept(urls.RELATED_CLAIM, "prior")}]


def _copy_prior_entries(former: Mapping[str, Any], known: Collection[str]) -> list[dict[str, Any]]:
    """Copy the earlier claim and its references, without a claim that it updated itself and without the
    fullUrls in `known`.
    """
    first = former["entry"][0]
    further = [each for each in former["entry"][1:] if each["resource"]["resourceType"] != "Claim"]
    return [deepcopy(entry) for entry in [first, *further] if entry["fullUrl"] not in known]


def _build_certification(code: str) -> dict[str, Any]:
    """Build the certificationType extension with this X12 code."""
    return {
        "url": urls.CERTIFICATION_TYPE,
        "valueCodeableConcept": _build_concept(urls.X12_CERTIFICATION, code),
    }


def _build_id(*parts: str) -> str:
    """Return the UUID that these parts always give."""
    return str(uuid5(_NAMESPACE, "/".join(parts)))


def _build_reference(id: str) -> dict[str, str]:
    """Build a reference to the entry with this id."""
    return {"reference": f"urn:uuid:{id}"}


def _build_concept(system: str, code: str) -> dict[str, Any]:
    """Build a CodeableConcept with one coding."""
    return {"coding": [{"system": system, "code": code}]}


def _build_identifier(system: str, value: str) -> dict[str, str]:
    return {"system": system, "value": value}


def _build_entry(id: str, kind: str, **elements: Any) -> dict[str, Any]:
    """Build a Bundle entry with a resource of type `kind`."""
    return {"fullUrl": f"urn:uuid:{id}", "resource": {"resourceType": kind, "id": id, **elements}}
