"""Da Vinci PAS: `$submit` with its answer at once or pended, `$inquire`, and what the gateway can do."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast.web.tokens import Caller
from pagw.auditing import SERVICE_VERSION
from pagw.fhir.capability import capability_statement
from pagw.fhir.inquiries import Inquiry, asked
from pagw.fhir.outcomes import refuse_errors
from pagw.fhir.pas_rules import check_inquiry
from pagw.fhir.reading import read_bundle
from pagw.inquiring import Inquiries
from pagw.intake import Intake, Submission
from pagw.routes import describing
from pagw.routes.asking import check_accept, fhir_answer, idempotency_key, json_body
from pagw.routes.describing import described
from pagw.routes.guarding import CLAIM_READ, CLAIM_WRITE, Gate, actor_of, open_to_all
from pagw.routes.native import REPLAYED
from pagw.waiting import Answers

# When what the gateway can do was last changed.
CAPABILITIES_OF: Final = datetime(2026, 11, 1, tzinfo=UTC)
# An inquiry names a claim and its parties, and attaches nothing.
INQUIRY_BYTES_MAX: Final = 1_000_000


def claim_routes(gate: Gate, intake: Intake) -> APIRouter:
    router = APIRouter(tags=["Da Vinci PAS"])
    settings, answers = gate.settings, Answers(gate.stores)
    inquiries = Inquiries(gate.stores, intake.findable)

    @router.post(
        "/fhir/Claim/$submit",
        **described(
            "submitClaim",
            "Ask for an authorization, change one, cancel one",
            parameters=[describing.KEY_IF_ANY],
            takes="Bundle",
            gives="Bundle",
            told={200: "The ClaimResponse: decided, or pended where the payer needs more time."},
        ),
    )
    @gate.serves(CLAIM_WRITE, audits="submission")
    async def submit(request: Request, caller: Caller) -> Response:
        key = idempotency_key(request, is_needed=False)
        body = await json_body(request, settings.bundle_bytes_max)
        actor = actor_of(caller)
        accepted = await intake.accept(Submission(caller.tenant, key, body, actor, is_named_by_bundle=True))
        stands = await answers.awaited(caller.tenant, accepted.pagw_id, settings.answer_wait_s)
        headers = {"x-pagw-id": accepted.pagw_id, **(REPLAYED if accepted.replayed else {})}
        return fhir_answer(await answers.bundle(stands, actor), headers=headers)

    @router.post(
        "/fhir/Claim/$inquire",
        **described(
            "inquireClaim",
            "Requests that stand as the example says, to who knows the member and is a provider of it",
            takes="Bundle",
            gives="Parameters",
        ),
    )
    @gate.serves(CLAIM_READ, audits="inquiry")
    async def inquire(request: Request, caller: Caller) -> Response:
        body = await json_body(request, INQUIRY_BYTES_MAX)
        inquiry = await asyncio.to_thread(_inquiry, body)
        return fhir_answer(await inquiries.answer(caller.tenant, inquiry, actor_of(caller)))

    return router


def metadata_routes(gate: Gate) -> APIRouter:
    router = APIRouter(tags=["Da Vinci PAS"])

    @router.get(
        "/fhir/metadata",
        **described("getCapabilities", "What the gateway can do", gives="CapabilityStatement", proofs=()),
    )
    @open_to_all
    async def metadata(request: Request) -> Response:
        check_accept(request)
        base = f"{gate.settings.public_url}/fhir"
        return fhir_answer(capability_statement(base, SERVICE_VERSION, CAPABILITIES_OF))

    return router


def _inquiry(body: bytes) -> Inquiry:
    bundle = read_bundle(body, bytes_max=INQUIRY_BYTES_MAX)
    refuse_errors(check_inquiry(bundle))
    return asked(bundle)
