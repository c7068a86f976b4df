"""`$inquire`: what is searched by the example of a Claim, who may be answered, and the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from pagw.fhir.claims import Identifier, ParsedClaim, parsed
from pagw.fhir.outcomes import Issue, outcome
from pagw.fhir.references import extension, objects
from pagw.fhir.urls import ADMINISTRATION_NUMBER, AUTHORIZATION_NUMBER


class Inquiry(BaseModel):
    """What is asked for. Beyond member and provider, whatever is told narrows the search."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    claim_identifier: Identifier | None = None
    authorization_numbers: tuple[str, ...] = ()
    member_ids: tuple[str, ...]
    provider_npi: str
    care_team_npis: tuple[str, ...] = ()
    payer: Identifier
    codes: tuple[str, ...] = ()
    service_from: str | None = None
    service_to: str | None = None

    @property
    def npis(self) -> frozenset[str]:
        return frozenset({self.provider_npi, *self.care_team_npis})


def asked(bundle: Mapping[str, Any]) -> Inquiry:
    """The inquiry that a Bundle makes in which `pas_rules.check_inquiry` found no error."""
    claim = parsed(bundle)
    return Inquiry(
        claim_identifier=claim.claim_identifier,
        authorization_numbers=tuple(dict.fromkeys(_numbers(objects(bundle, "entry")[0]["resource"]))),
        member_ids=claim.member_ids,
        provider_npi=claim.provider_npi,
        care_team_npis=claim.care_team_npis,
        payer=claim.payer,
        codes=tuple(dict.fromkeys(item.code for item in claim.items if item.code is not None)),
        service_from=claim.service_from,
        service_to=claim.service_to,
    )


def is_permitted(inquiry: Inquiry, claim: ParsedClaim) -> bool:
    """Whether the asker may see a claim: it knows the member id, and is a provider of the claim by its NPI.

    This holds for whoever asks, also for others than the one who sent the claim.
    """
    knows_member = not set(inquiry.member_ids).isdisjoint(claim.member_ids)
    return knows_member and not inquiry.npis.isdisjoint({claim.provider_npi, *claim.care_team_npis})


def is_sought(inquiry: Inquiry, claim: ParsedClaim, numbers: Sequence[str] = ()) -> bool:
    """Whether a claim is one of those asked for. `numbers` are the authorization numbers its payer gave.

    An authorization number or the claim's identifier, where told, decides alone. Without them, the payer and the
    services have to fit; whether it may be seen is `is_permitted`'s to say.
    """
    if inquiry.authorization_numbers:
        return not set(inquiry.authorization_numbers).isdisjoint(numbers)
    if inquiry.claim_identifier is not None:
        return inquiry.claim_identifier == claim.claim_identifier
    codes = {item.code for item in claim.items}
    return inquiry.payer == claim.payer and (not inquiry.codes or not codes.isdisjoint(inquiry.codes))


def inquiry_answer(found: Sequence[Mapping[str, Any]], *, withheld: Sequence[Issue] = ()) -> dict[str, Any]:
    """Parameters with one response Bundle for each claim found; `withheld` warns of claims that are not shown."""
    parameters: list[dict[str, Any]] = [{"name": "responseBundle", "resource": bundle} for bundle in found]
    if withheld:
        parameters.append({"name": "outcome", "resource": outcome(withheld)})
    return (
        {"resourceType": "Parameters", "parameter": parameters}
        if parameters
        else {"resourceType": "Parameters"}
    )


def _numbers(claim: Mapping[str, Any]) -> Iterator[str]:
    """Authorization numbers of the claim, of its insurances and of its items."""
    for insurance in objects(claim, "insurance"):
        references = insurance.get("preAuthRef")
        yield from (
            (each for each in references if isinstance(each, str)) if isinstance(references, list) else ()
        )
    for element in [claim, *objects(claim, "item")]:
        for url in (AUTHORIZATION_NUMBER, ADMINISTRATION_NUMBER):
            found = extension(element, url)
            if found is not None and isinstance(number := found.get("valueString"), str):
                yield number
