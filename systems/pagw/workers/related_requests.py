"""Search for the earlier request that an update or a cancellation names, by PAGW id or identifier.

An identifier is a system and a value: two senders may both have a claim 1001. A request matches only if it
belongs to the tenant and has the same payer, the same member and one of the same providers; any other is
reported as not found. If several match, the update is refused.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from holdfast import Stores
from pagw.domain.fhir.claims import Identifier, ParsedClaim, parse_claim
from pagw.domain.fhir.outcomes import FhirRefused, build_error
from pagw.domain.statuses import Status
from pagw.model import files, patterns
from pagw.model.entities import RequestRow
from pagw.model.lookup import CLAIM, RequestLookup, format_claim_identifier

PAGW_ID: Final = re.compile(r"PAGW-[0-9A-HJKMNP-TV-Z]{26}")
# Newest first. A claim sent more often than this under one identifier must be named by its PAGW id.
MAX_CANDIDATES: Final = 20
ENDED: Final = frozenset({Status.FAILED, Status.CANCELLED})


@dataclass(frozen=True)
class RelatedRequests:
    """Finds the request that Claim.related refers to."""

    stores: Stores
    lookup: RequestLookup

    async def find(self, tenant: str, claim: ParsedClaim) -> str:
        """Return the id of the related request. Raise `FhirRefused` if none matches, or several."""
        fitting = [
            each for each in await self._find_candidates(tenant, claim) if await self._is_match(each, claim)
        ]
        # Skip requests that were updated since, and failed or cancelled ones that were sent again.
        updated = {each.replaces for each in fitting if each.status not in ENDED}
        newest = [each for each in fitting if each.pagw_id not in updated]
        found = [each for each in newest if each.status not in ENDED] or newest
        if not found:
            wrong = (
                "Invalid Claim.related: expected one of your requests to this payer, for this member and "
                "provider."
            )
            raise FhirRefused([build_error("not-found", wrong, "Claim.related")])
        if len(found) > 1:
            wrong = "Claim.related matches several requests. Use a pagwId as the identifier's value."
            raise FhirRefused([build_error("conflict", wrong, "Claim.related")])
        return found[0].pagw_id

    async def _find_candidates(self, tenant: str, claim: ParsedClaim) -> list[RequestRow]:
        """Return the tenant's request with the PAGW id that the claim names, or those with its related
        identifier, newest first.
        """
        if (pagw_id := _parse_pagw_id(claim)) is not None:
            found = await self.stores.run(patterns.request(tenant, pagw_id))
            return [] if found is None else [found]
        if claim.related_identifier is None:
            return []
        hash = self.lookup.hash(tenant, CLAIM, format_identifier(claim.related_identifier))
        return list(await self.stores.run(patterns.found_by(tenant, CLAIM, hash, limit=MAX_CANDIDATES)))

    async def _is_match(self, request: RequestRow, claim: ParsedClaim) -> bool:
        """Return whether a request has the claim's payer, member and one of its providers."""
        if request.payer_id != claim.payer_id:
            return False
        stored = await self.stores.run(files.bundle(request.created_at, request.pagw_id))
        earlier = parse_claim(json.loads(stored.body))
        return not set(claim.member_ids).isdisjoint(earlier.member_ids) and not _get_npis(claim).isdisjoint(
            _get_npis(earlier)
        )


def format_identifier(identifier: Identifier) -> str:
    """Return the text by which an identifier is hashed."""
    return format_claim_identifier(identifier.system, identifier.value)


def _parse_pagw_id(claim: ParsedClaim) -> str | None:
    """Return the PAGW id in the claim's related reference or identifier, or None."""
    if found := PAGW_ID.search(claim.related_reference or ""):
        return found[0]
    value = "" if claim.related_identifier is None else claim.related_identifier.value
    return value if PAGW_ID.fullmatch(value) else None


def _get_npis(claim: ParsedClaim) -> frozenset[str]:
    """Return the NPIs of the claim's provider and care team."""
    return frozenset({claim.provider_npi, *claim.care_team_npis})
