"""`$inquire`: find a tenant's requests from the values in an inquiry.

Candidates are looked up by keyed hashes of the authorization number, the claim identifier or the member id,
whichever the inquiry gives first, and then compared with the parsed claim. The caller must supply the member
id and be a provider on the claim; other requests are not even counted. Every response in the result is
audited as a read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from holdfast import Stores
from pagw.domain.fhir.claims import parse_claim
from pagw.domain.fhir.inquiries import Inquiry, build_inquiry_response, is_match, is_permitted
from pagw.domain.fhir.outcomes import build_warning
from pagw.model import files, patterns
from pagw.model.audit import Actor
from pagw.model.entities import RequestRow
from pagw.model.lookup import AUTHORIZATION, CLAIM, MEMBER, RequestLookup
from pagw.workers.related_requests import format_identifier
from pagw.workers.responses import ResponseReader

MAX_ANSWERS: Final = 20
# All candidates together, newest first.
MAX_CANDIDATES: Final = 200


@dataclass(frozen=True)
class Inquiries:
    """Answers `$inquire`."""

    stores: Stores
    lookup: RequestLookup

    async def answer(self, tenant: str, inquiry: Inquiry, actor: Actor) -> dict[str, Any]:
        """Return the response (Parameters) with at most `MAX_ANSWERS` matching requests, and a warning if
        there are more. Each returned response is audited as a read by `actor`.
        """
        found: list[dict[str, Any]] = []
        is_cut = False
        for request in await self._find_candidates(tenant, inquiry):
            if not await self._is_match(request, inquiry):
                continue
            if len(found) == MAX_ANSWERS:
                is_cut = True
                break
            found.append(await ResponseReader(self.stores).read_response(request, actor, inquiry=True))
        more = f"More than {MAX_ANSWERS} requests match. Inquire by claim identifier or authorization number."
        return build_inquiry_response(found, withheld=[build_warning("suppressed", more)] if is_cut else ())

    async def _find_candidates(self, tenant: str, inquiry: Inquiry) -> list[RequestRow]:
        """Return at most `MAX_CANDIDATES` requests of the tenant that have the hash of a value of the
        inquiry.
        """
        found: dict[str, RequestRow] = {}
        for kind, value in _get_lookup_values(inquiry):
            hash = self.lookup.hash(tenant, kind, value)
            rows = await self.stores.run(patterns.found_by(tenant, kind, hash, limit=MAX_CANDIDATES))
            found |= {row.pagw_id: row for row in rows}
        return list(found.values())[:MAX_CANDIDATES]

    async def _is_match(self, request: RequestRow, inquiry: Inquiry) -> bool:
        """Return whether the stored claim matches the inquiry and the caller may see it."""
        stored = await self.stores.run(files.bundle(request.created_at, request.pagw_id))
        claim = parse_claim(json.loads(stored.body))
        # If the inquiry has authorization numbers, the lookup found the request by one of them.
        return is_permitted(inquiry, claim) and is_match(inquiry, claim, inquiry.authorization_numbers)


def _get_lookup_values(inquiry: Inquiry) -> list[tuple[str, str]]:
    """Return the kinds and values to look up: authorization numbers, else the claim identifier, else the
    member ids.
    """
    if inquiry.authorization_numbers:
        return [(AUTHORIZATION, each) for each in inquiry.authorization_numbers]
    if inquiry.claim_identifier is not None:
        return [(CLAIM, format_identifier(inquiry.claim_identifier))]
    return [(MEMBER, each) for each in inquiry.member_ids]
