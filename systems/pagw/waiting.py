"""The synchronous answer: waits until a request has one, woken by the stage that makes it, or until the time is over.

What is not decided by then is answered as pended. Every read of an answer is audited: it is about a patient.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Final

from holdfast import Stores
from holdfast.errors import NotFound
from pagw import files, patterns
from pagw.auditing import Actor, AuditEvent, record
from pagw.fhir.answers import as_inquired, error_bundle, response_bundle
from pagw.fhir.decisions import Decision, Outcome
from pagw.fhir.outcomes import error
from pagw.model import Tracked
from pagw.statuses import Status

SERVICE: Final = "pasorchestrator"
# A notice may be lost with a connection: so often the row is looked at in any case.
LOOK_S: Final = 1.0


@dataclass(frozen=True)
class Answers:
    stores: Stores

    async def awaited(self, tenant: str, pagw_id: str, wait_s: float) -> Tracked:
        """The request when it has an answer, or as it stands when the time is over."""
        ends = asyncio.get_running_loop().time() + wait_s
        async with self.stores.notices(patterns.ANSWERED) as notices:
            while True:
                request = await self._request(tenant, pagw_id)
                left = ends - asyncio.get_running_loop().time()
                if is_answered(request) or left <= 0:
                    return request
                await _told_of(notices, pagw_id, min(left, LOOK_S))

    async def bundle(self, request: Tracked, actor: Actor, *, inquiry: bool = False) -> dict[str, Any]:
        """The ClaimResponse Bundle of a request as it stands. Who reads it is written down."""
        answer = await self._answer(request, inquiry=inquiry)
        await record(self.stores, read_event(request, actor, "ClaimResponse"))
        return answer

    async def original(self, request: Tracked, actor: Actor) -> bytes:
        stored = await self.stores.run(files.bundle(request.created_at, request.pagw_id))
        await record(self.stores, read_event(request, actor, "Bundle"))
        return stored.body

    async def _answer(self, request: Tracked, *, inquiry: bool) -> dict[str, Any]:
        """As it was kept; but of what failed, that it did, whatever was kept before. Who inquires after a decision that was
        cancelled since is told of that."""
        if request.status is Status.FAILED:
            return await self._failed(request, inquiry=inquiry)
        is_undone = request.status is Status.CANCELLED and (inquiry or not request.decision)
        if request.s3_response_key is not None and not is_undone:
            kept = files.response if request.decision else files.pended_response
            stored = await self.stores.run(kept(request.created_at, request.pagw_id))
            answer: dict[str, Any] = json.loads(stored.body)
            return as_inquired(answer) if inquiry else answer
        return await self._made(request, Outcome.CANCELLED if is_undone else Outcome.PENDED, inquiry=inquiry)

    async def _made(self, request: Tracked, outcome: Outcome, *, inquiry: bool) -> dict[str, Any]:
        """What nobody has kept: an end without a decision, or that there is none yet."""
        decision = Decision(outcome=outcome, decided_at=request.updated_at)
        return response_bundle(
            await self._asked(request),
            decision,
            pagw_id=request.pagw_id,
            created=request.updated_at,
            inquiry=inquiry,
        )

    async def _failed(self, request: Tracked, *, inquiry: bool) -> dict[str, Any]:
        issue = error("processing", f"{request.error_code}: {request.error_message}")
        # By when it ended, and not by what was noted of it since: every read is told the same.
        at = request.completed_at or request.updated_at
        asked = await self._asked(request)
        failed = error_bundle(asked, [issue], pagw_id=request.pagw_id, created=at)
        return as_inquired(failed) if inquiry else failed

    async def _asked(self, request: Tracked) -> dict[str, Any]:
        kept = await self.stores.run(files.bundle(request.created_at, request.pagw_id))
        asked: dict[str, Any] = json.loads(kept.body)
        return asked

    async def _request(self, tenant: str, pagw_id: str) -> Tracked:
        found = await self.stores.run(patterns.request(tenant, pagw_id))
        if found is None:
            raise NotFound("There is no request of this id.")
        return found


def is_answered(request: Tracked) -> bool:
    """Whether there is something to tell: a decision, a pended answer, or an end."""
    return request.s3_response_key is not None or request.completed_at is not None


def read_event(request: Tracked, actor: Actor, what: str) -> AuditEvent:
    return AuditEvent(
        type="PHI_READ",
        actor=actor,
        service=SERVICE,
        tenant=request.tenant,
        pagw_id=request.pagw_id,
        resource_type=what,
        resource_id=request.pagw_id,
    )


async def _told_of(notices: Any, pagw_id: str, wait_s: float) -> None:
    """Until a notice of this request, or the time is over. One that names nobody may have been any."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + wait_s
    while (left := ends - loop.time()) > 0:
        told = await notices.wait(left)
        if told is None or told in ("", pagw_id):
            return
