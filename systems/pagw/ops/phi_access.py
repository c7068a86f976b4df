"""Reads of a request's contents by an operator: each is in the gateway's audit log before it is shown."""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast import Pattern, Stores
from pagw.domain.fhir.claim_summary import ClaimSummary, build_claim_summary
from pagw.model import files
from pagw.model.audit import Actor, AuditEvent, record_event
from pagw.model.entities import RequestRow

SERVICE: Final = "operator"

PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (files.bundle,)


async def read_claim(stores: Stores, request: RequestRow, actor: Actor) -> ClaimSummary:
    """Return the contents of a request in short, and record who read them. Raise `NotFound` if its bundle is
    gone, `FhirRefused` if it has no readable Claim.
    """
    stored = await stores.run(files.bundle(request.created_at, request.pagw_id))
    await record_event(stores, _build_event(request, actor))
    return build_claim_summary(json.loads(stored.body))


def _build_event(request: RequestRow, actor: Actor) -> AuditEvent:
    return AuditEvent(
        type="PHI_READ",
        actor=actor,
        service=SERVICE,
        tenant=request.tenant,
        pagw_id=request.pagw_id,
        resource_type="Bundle",
        resource_id=request.pagw_id,
        details={"by": "console"},
    )
