"""`$inquire`: find requests from the values in an inquiry, and answer with their current state.

Candidates are looked up by keyed hashes of the authorization number, the claim identifier or the member id,
whichever the inquiry gives first, and then compared with the parsed claim. The caller must supply the member
id and be a provider on the claim; other requests are not even counted. An old claim identifier or
authorization number leads to the request that replaced the old one. Other tenants' requests are found only if
the policy of their tenant allows it (`PAGW_SHARED_INQUIRIES`). Every response in the result is audited as a
read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast import Stores
from pagw.domain.fhir.claims import ParsedClaim, parse_claim
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
    """Answers `$inquire`. The requests of the tenants in `shared_tenants` are found by all tenants."""

    stores: Stores
    lookup: RequestLookup
    shared_tenants: Sequence[str] = ()

    async def answer(self, tenant: str, inquiry: Inquiry, actor: Actor) -> dict[str, Any]:
        """Return the response (Parameters) with at most `MAX_ANSWERS` matching requests, and a warning if
        there are more. Each returned response is audited as a read by `actor`, at the tenant whose request it
        is.
        """
        current = dict[str, RequestRow]()
        for request in await self._find_candidates(tenant, inquiry):
            if len(current) > MAX_ANSWERS:
                break
            if (found := await self._find_current(request, inquiry)) is not None:
                current.setdefault(found.pagw_id, found)
        reader = ResponseReader(self.stores)
        answers = [
            await reader.read_response(each, actor, inquiry=True, by_tenant=tenant)
            for each in list(current.values())[:MAX_ANSWERS]
        ]
        is_cut = len(current) > MAX_ANSWERS
        more = f"More than {MAX_ANSWERS} requests match. Inquire by claim identifier or authorization number."
        return build_inquiry_response(answers, withheld=[build_warning("suppressed", more)] if is_cut else ())

    async def _find_candidates(self, tenant: str, inquiry: Inquiry) -> list[RequestRow]:
        """Return at most `MAX_CANDIDATES` requests that have the hash of a value of the inquiry: first the
        tenant's own, then those that other tenants share.
        """
        found: dict[str, RequestRow] = {}
        for owner in dict.fromkeys((tenant, *self.shared_tenants)):
            for kind, value in _get_lookup_values(inquiry):
                hash = self.lookup.hash(owner, kind, value)
                rows = await self.stores.run(patterns.found_by(owner, kind, hash, limit=MAX_CANDIDATES))
                found |= {row.pagw_id: row for row in rows}
        return list(found.values())[:MAX_CANDIDATES]

    async def _find_current(self, request: RequestRow, inquiry: Inquiry) -> RequestRow | None:
        """Return the current request in the place of one that matches: the last update of it, or itself. None
        if it does not match, or the caller may not see both.
        """
        claim = await self._load_claim(request)
        # If the inquiry has authorization numbers, the lookup found the request by one of them.
        if not (is_permitted(inquiry, claim) and is_match(inquiry, claim, inquiry.authorization_numbers)):
            return None
        current = await self.stores.run(patterns.current_request(request.tenant, request.pagw_id))
        if current is None or current.pagw_id == request.pagw_id:
            return request
        return current if is_permitted(inquiry, await self._load_claim(current)) else None

    async def _load_claim(self, request: RequestRow) -> ParsedClaim:
        """Return the parsed claim of a request."""
        stored = await self.stores.run(files.bundle(request.created_at, request.pagw_id))
        return parse_claim(json.loads(stored.body))


def _get_lookup_values(inquiry: Inquiry) -> list[tuple[str, str]]:
    """Return the kinds and values to look up: authorization numbers, else the claim identifier, else the
    member ids.
    """
    if inquiry.authorization_numbers:
        return [(AUTHORIZATION, each) for each in inquiry.authorization_numbers]
    if inquiry.claim_identifier is not None:
        return [(CLAIM, format_identifier(inquiry.claim_identifier))]
    return [(MEMBER, each) for each in inquiry.member_ids]
