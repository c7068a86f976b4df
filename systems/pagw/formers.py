"""The request that an update or a cancellation is of: named by our id, or by the identifier of its claim.

An identifier is a system and a value: two senders may both have a claim 1001. Whichever way a request is named, it is the
former one only where it is the tenant's, at the same payer, about the same member, and of one of the same providers;
anything else is told as what is not there. Of several that fit, none is guessed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from holdfast import Stores
from pagw import files, patterns
from pagw.fhir.claims import Identifier, ParsedClaim, parsed
from pagw.fhir.outcomes import FhirRefused, error
from pagw.findable import CLAIM, Findable, claim_name
from pagw.model import Tracked
from pagw.statuses import Status

PAGW_ID: Final = re.compile(r"PAGW-[0-9A-HJKMNP-TV-Z]{26}")
# Looked at, newest first: a claim that was sent more often than this under one identifier is to be named by our id.
CANDIDATES_MAX: Final = 20
ENDED: Final = frozenset({Status.FAILED, Status.CANCELLED})


@dataclass(frozen=True)
class Formers:
    stores: Stores
    findable: Findable

    async def of(self, tenant: str, claim: ParsedClaim) -> str:
        """Its id. Raises `FhirRefused` where there is none that fits, or more than one."""
        fitting = [
            each for each in await self._candidates(tenant, claim) if await self._is_former(each, claim)
        ]
        # One that was updated since is not meant, nor one that failed or was cancelled and was sent anew.
        updated = {each.replaces for each in fitting if each.status not in ENDED}
        newest = [each for each in fitting if each.pagw_id not in updated]
        found = [each for each in newest if each.status not in ENDED] or newest
        if not found:
            wrong = "Claim.related names no request of yours at this payer, about this member and of this provider."
            raise FhirRefused([error("not-found", wrong, "Claim.related")])
        if len(found) > 1:
            wrong = "Claim.related fits several requests: say which, by its pagwId as the identifier's value."
            raise FhirRefused([error("conflict", wrong, "Claim.related")])
        return found[0].pagw_id

    async def _candidates(self, tenant: str, claim: ParsedClaim) -> list[Tracked]:
        if (pagw_id := _named(claim)) is not None:
            found = await self.stores.run(patterns.request(tenant, pagw_id))
            return [] if found is None else [found]
        if claim.related_identifier is None:
            return []
        hash = self.findable.hash(tenant, CLAIM, name_of(claim.related_identifier))
        return list(await self.stores.run(patterns.found_by(tenant, CLAIM, hash, limit=CANDIDATES_MAX)))

    async def _is_former(self, request: Tracked, claim: ParsedClaim) -> bool:
        if request.payer_id != claim.payer_id:
            return False
        kept = await self.stores.run(files.bundle(request.created_at, request.pagw_id))
        former = parsed(json.loads(kept.body))
        return not set(claim.member_ids).isdisjoint(former.member_ids) and not _npis(claim).isdisjoint(
            _npis(former)
        )


def name_of(identifier: Identifier) -> str:
    return claim_name(identifier.system, identifier.value)


def _named(claim: ParsedClaim) -> str | None:
    if found := PAGW_ID.search(claim.related_reference or ""):
        return found[0]
    value = "" if claim.related_identifier is None else claim.related_identifier.value
    return value if PAGW_ID.fullmatch(value) else None


def _npis(claim: ParsedClaim) -> frozenset[str]:
    return frozenset({claim.provider_npi, *claim.care_team_npis})
