"""Responses to clients: wait for an answer, and read the ClaimResponse of a request.

The wait ends when a stage announces an answer, or at the timeout; an undecided request is then answered as
pended. Every read of a response is audited, because it is PHI.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from holdfast import Stores
from holdfast.core.errors import NotFound
from pagw.domain.fhir.decisions import Decision, Outcome
from pagw.domain.fhir.exact_json import parse_exact
from pagw.domain.fhir.outcomes import build_error
from pagw.domain.fhir.responses.response_bundles import (
    build_error_bundle,
    build_response_bundle,
    to_inquiry_response,
)
from pagw.domain.statuses import Status
from pagw.model import files, patterns
from pagw.model.audit import Actor, AuditEvent, record_event
from pagw.model.entities import RequestRow
from pagw.workers.stages.payer_answers import PAYER_ERROR, UNCLEAR

SERVICE: Final = "pasorchestrator"
# A notification may be lost with its connection, so the row is also polled.
POLL_S: Final = 1.0
# Failures whose response is the payer's own Bundle.
PASSED_ON_FAILURES: Final = frozenset({PAYER_ERROR, UNCLEAR})
# The patterns that a component needs to read responses.
READS: Final = (files.bundle, files.response, files.pended_response, files.later_response)


@dataclass(frozen=True)
class ResponseReader:
    """Reads requests' responses and audits each read."""

    stores: Stores

    async def wait_for_answer(self, tenant: str, pagw_id: str, wait_s: float) -> RequestRow:
        """Return the request as soon as it has an answer, or its current state after `wait_s` seconds."""
        ends = asyncio.get_running_loop().time() + wait_s
        async with self.stores.listen(patterns.ANSWERED_CHANNEL) as notices:
            while True:
                request = await self._get_request(tenant, pagw_id)
                left = ends - asyncio.get_running_loop().time()
                if is_answered(request) or left <= 0:
                    return request
                await _wait_for_notice(notices, pagw_id, min(left, POLL_S))

    async def read_response(
        self, request: RequestRow, actor: Actor, *, inquiry: bool = False, by_tenant: str | None = None
    ) -> dict[str, Any]:
        """Return the request's ClaimResponse Bundle and audit the read. `inquiry` returns it as a response of
        `$inquire`; `by_tenant` is the reader's tenant.
        """
        answer = await self._load_response(request, inquiry=inquiry)
        event = build_read_event(request, actor, "ClaimResponse", by_tenant)
        await record_event(self.stores, event)
        return answer

    async def read_request(self, request: RequestRow, actor: Actor) -> bytes:
        """Return the original request bundle and audit the read."""
        stored = await self.stores.run(files.bundle(request.created_at, request.pagw_id))
        await record_event(self.stores, build_read_event(request, actor, "Bundle"))
        return stored.body

    async def _load_response(self, request: RequestRow, *, inquiry: bool) -> dict[str, Any]:
        """Return the stored response, or build one.

        A failed request gets an error response, whatever was stored before, unless its payer sent one. An
        inquiry about a decision that was cancelled since gets the cancellation.
        """
        is_passed_on = request.error_code in PASSED_ON_FAILURES and request.s3_response_key is not None
        if request.status is Status.FAILED and not is_passed_on:
            return await self._build_error_response(request, inquiry=inquiry)
        is_cancelled = request.status is Status.CANCELLED
        is_revised = request.metadata.get("laterStatus") == Status.CANCELLED
        is_undone = is_cancelled and not is_revised and (inquiry or not request.decision)
        if request.s3_response_key is not None and not is_undone:
            answer = await self._load_stored_response(request)
            return to_inquiry_response(answer) if inquiry else answer
        return await self._build_response(
            request, Outcome.CANCELLED if is_undone else Outcome.PENDED, inquiry=inquiry
        )

    async def _load_stored_response(self, request: RequestRow) -> dict[str, Any]:
        """Return the response to the current decision, or to none yet, with the exact numbers in it."""
        created, pagw_id = request.created_at, request.pagw_id
        if request.status is Status.FAILED or not request.decision:
            pattern = files.pended_response(created, pagw_id)
        elif (number := request.metadata.get("laterCallback")) is not None:
            pattern = files.later_response(created, pagw_id, str(number))
        else:
            pattern = files.response(created, pagw_id)
        answer: dict[str, Any] = parse_exact((await self.stores.run(pattern)).body)
        return answer

    async def _build_response(
        self, request: RequestRow, outcome: Outcome, *, inquiry: bool
    ) -> dict[str, Any]:
        """Build a response that is not stored: cancelled without a decision, or not decided yet."""
        decision = Decision(outcome=outcome, decided_at=request.updated_at)
        return build_response_bundle(
            await self._load_request_bundle(request),
            decision,
            pagw_id=request.pagw_id,
            created=request.updated_at,
            inquiry=inquiry,
        )

    async def _build_error_response(self, request: RequestRow, *, inquiry: bool) -> dict[str, Any]:
        """Build the response of a failed request, the same on every read."""
        issue = build_error("processing", f"{request.error_code}: {request.error_message}")
        # Use the time at which it ended, so that every read returns the same bundle.
        at = request.completed_at or request.updated_at
        request_bundle = await self._load_request_bundle(request)
        failed = build_error_bundle(request_bundle, [issue], pagw_id=request.pagw_id, created=at)
        return to_inquiry_response(failed) if inquiry else failed

    async def _load_request_bundle(self, request: RequestRow) -> dict[str, Any]:
        stored = await self.stores.run(files.bundle(request.created_at, request.pagw_id))
        bundle: dict[str, Any] = parse_exact(stored.body)
        return bundle

    async def _get_request(self, tenant: str, pagw_id: str) -> RequestRow:
        """Return the tenant's request. Raise `NotFound`."""
        found = await self.stores.run(patterns.request(tenant, pagw_id))
        if found is None:
            raise NotFound("Request not found: this tenant has no request with this id.")
        return found


def is_answered(request: RequestRow) -> bool:
    """Return whether the request has a response: a decision, a pended response, or an end."""
    return request.s3_response_key is not None or request.completed_at is not None


def build_read_event(
    request: RequestRow, actor: Actor, resource_type: str, by_tenant: str | None = None
) -> AuditEvent:
    """Return the audit event of a read of PHI. It names the reader's tenant if that is another."""
    is_other = by_tenant not in (None, request.tenant)
    return AuditEvent(
        type="PHI_READ",
        actor=actor,
        # The API reads for its callers, a stage for itself.
        service=actor.id if actor.type == "service" else SERVICE,
        tenant=request.tenant,
        pagw_id=request.pagw_id,
        resource_type=resource_type,
        resource_id=request.pagw_id,
        details={"byTenant": by_tenant} if is_other else {},
    )


async def _wait_for_notice(notices: Any, pagw_id: str, wait_s: float) -> None:
    """Wait for a notification of this request or the timeout. A notification without an id may be for any
    request.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + wait_s
    while (left := ends - loop.time()) > 0:
        payload = await notices.wait(left)
        if payload is None or payload in ("", pagw_id):
            return
