"""Inquiries (`$inquire`): parse the example Claim, match claims to it, and build the response."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from pagw.domain.fhir.claims import Identifier, ParsedClaim, parse_claim
from pagw.domain.fhir.outcomes import Issue, build_outcome
from pagw.domain.fhir.references import find_extension, get_objects
from pagw.domain.fhir.urls import ADMINISTRATION_NUMBER, AUTHORIZATION_NUMBER


class Inquiry(BaseModel):
    """A search for claims. Each element beyond member and provider narrows it."""

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
        """Return all NPIs by which the caller may be a provider of a claim."""
        return frozenset({self.provider_npi, *self.care_team_npis})


def parse_inquiry(bundle: Mapping[str, Any]) -> Inquiry:
    """Parse an inquiry from a Bundle in which `pas_rules.check_inquiry` found no error."""
    claim = parse_claim(bundle)
    return Inquiry(
        claim_identifier=claim.claim_identifier,
        authorization_numbers=tuple(
            dict.fromkeys(_iterate_authorization_numbers(get_objects(bundle, "entry")[0]["resource"]))
        ),
        member_ids=claim.member_ids,
        provider_npi=claim.provider_npi,
        care_team_npis=claim.care_team_npis,
        payer=claim.payer,
        codes=tuple(dict.fromkeys(item.code for item in claim.items if item.code is not None)),
        service_from=claim.service_from,
        service_to=claim.service_to,
    )


def is_permitted(inquiry: Inquiry, claim: ParsedClaim) -> bool:
    """Return whether the caller may see a claim: it supplies the member id and is a provider on the claim by
    NPI.

    This holds for every caller, not only for the sender of the claim.
    """
    knows_member = not set(inquiry.member_ids).isdisjoint(claim.member_ids)
    return knows_member and not inquiry.npis.isdisjoint({claim.provider_npi, *claim.care_team_npis})


def is_match(inquiry: Inquiry, claim: ParsedClaim, numbers: Sequence[str] = ()) -> bool:
    """Return whether a claim matches the inquiry. `numbers` are the authorization numbers its payer assigned.

    An authorization number or the claim's identifier decides alone. Without them, the payer must match and,
    if the inquiry has service codes, one of them. `is_permitted` decides separately whether the caller may
    see the claim.
    """
    if inquiry.authorization_numbers:
        return not set(inquiry.authorization_numbers).isdisjoint(numbers)
    if inquiry.claim_identifier is not None:
        return inquiry.claim_identifier == claim.claim_identifier
    codes = {item.code for item in claim.items}
    return inquiry.payer == claim.payer and (not inquiry.codes or not codes.isdisjoint(inquiry.codes))


def build_inquiry_response(
    found: Sequence[Mapping[str, Any]], *, withheld: Sequence[Issue] = ()
) -> dict[str, Any]:
    """Build Parameters with one response Bundle per claim. `withheld` warns about omitted claims."""
    parameters: list[dict[str, Any]] = [{"name": "responseBundle", "resource": bundle} for bundle in found]
    if withheld:
        parameters.append({"name": "outcome", "resource": build_outcome(withheld)})
    return (
        {"resourceType": "Parameters", "parameter": parameters}
        if parameters
        else {"resourceType": "Parameters"}
    )


def _iterate_authorization_numbers(claim: Mapping[str, Any]) -> Iterator[str]:
    """Yield the authorization numbers in a claim's insurances, in the claim itself and in its items."""
    for insurance in get_objects(claim, "insurance"):
        references = insurance.get("preAuthRef")
        yield from (
            (each for each in references if isinstance(each, str)) if isinstance(references, list) else ()
        )
    for element in [claim, *get_objects(claim, "item")]:
        for url in (AUTHORIZATION_NUMBER, ADMINISTRATION_NUMBER):
            found = find_extension(element, url)
            if found is not None and isinstance(number := found.get("valueString"), str):
                yield number
