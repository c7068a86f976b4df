"""`$inquire`: a tenant's requests, found by what the asker knows of them.

They are found by keyed hashes, of the authorization number, the claim's identifier or the member's id, whichever of them is
told first; then compared with what was parsed of them. Who asks must know the member's id and be a provider of the claim;
what it may not see is not even counted. Every answer that is given out is audited as a read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from holdfast import Stores
from pagw import files, patterns
from pagw.auditing import Actor
from pagw.fhir.claims import parsed
from pagw.fhir.inquiries import Inquiry, inquiry_answer, is_permitted, is_sought
from pagw.fhir.outcomes import warning
from pagw.findable import AUTHORIZATION, CLAIM, MEMBER, Findable
from pagw.formers import name_of
from pagw.model import Tracked
from pagw.waiting import Answers

ANSWERS_MAX: Final = 20
# Looked at in all, newest first.
CANDIDATES_MAX: Final = 200


@dataclass(frozen=True)
class Inquiries:
    stores: Stores
    findable: Findable

    async def answer(self, tenant: str, inquiry: Inquiry, actor: Actor) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        is_cut = False
        for request in await self._candidates(tenant, inquiry):
            if not await self._fits(request, inquiry):
                continue
            if len(found) == ANSWERS_MAX:
                is_cut = True
                break
            found.append(await Answers(self.stores).bundle(request, actor, inquiry=True))
        more = (
            f"There are more than {ANSWERS_MAX}: ask by the claim's identifier or the authorization number."
        )
        return inquiry_answer(found, withheld=[warning("suppressed", more)] if is_cut else ())

    async def _candidates(self, tenant: str, inquiry: Inquiry) -> list[Tracked]:
        found: dict[str, Tracked] = {}
        for kind, value in _sought_by(inquiry):
            hash = self.findable.hash(tenant, kind, value)
            rows = await self.stores.run(patterns.found_by(tenant, kind, hash, limit=CANDIDATES_MAX))
            found |= {row.pagw_id: row for row in rows}
        return list(found.values())[:CANDIDATES_MAX]

    async def _fits(self, request: Tracked, inquiry: Inquiry) -> bool:
        kept = await self.stores.run(files.bundle(request.created_at, request.pagw_id))
        claim = parsed(json.loads(kept.body))
        # It was found by one of these numbers where any was told, so that it has one of them.
        return is_permitted(inquiry, claim) and is_sought(inquiry, claim, inquiry.authorization_numbers)


def _sought_by(inquiry: Inquiry) -> list[tuple[str, str]]:
    if inquiry.authorization_numbers:
        return [(AUTHORIZATION, each) for each in inquiry.authorization_numbers]
    if inquiry.claim_identifier is not None:
        return [(CLAIM, name_of(inquiry.claim_identifier))]
    return [(MEMBER, each) for each in inquiry.member_ids]
