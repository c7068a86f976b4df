"""Routes of Da Vinci PAS: `$submit` (answered at once or pended), `$inquire` and CapabilityStatement."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast.web.tokens import Caller
from pagw.api.inquiries import Inquiries
from pagw.api.routes import openapi
from pagw.api.routes.auth import CLAIM_READ, CLAIM_WRITE, Gate, allow_anonymous, build_actor
from pagw.api.routes.native import REPLAYED
from pagw.api.routes.openapi import describe_route
from pagw.api.routes.parameters import (
    build_fhir_response,
    check_accept,
    parse_idempotency_key,
    read_json_body,
)
from pagw.domain.fhir.inquiries import Inquiry, parse_inquiry
from pagw.domain.fhir.outcomes import refuse_errors
from pagw.domain.fhir.parser import parse_bundle
from pagw.domain.fhir.responses.capability_statement import build_capability_statement
from pagw.domain.fhir.rules.pas_rules import check_inquiry
from pagw.model.audit import SERVICE_VERSION
from pagw.workers.intake import Intake, Submission
from pagw.workers.responses import ResponseReader

# The date of the last change to the CapabilityStatement.
CAPABILITIES_DATE: Final = datetime(2026, 11, 1, tzinfo=UTC)
# An inquiry names a claim and its participants, without attachments.
MAX_INQUIRY_BYTES: Final = 1_000_000


def build_claim_routes(gate: Gate, intake: Intake) -> APIRouter:
    """Return the routes of `$submit` and `$inquire`."""
    router = APIRouter(tags=["Da Vinci PAS"])
    settings, answers = gate.settings, ResponseReader(gate.stores)
    inquiries = Inquiries(gate.stores, intake.lookup)

    @router.post(
        "/fhir/Claim/$submit",
        **describe_route(
            "submitClaim",
            "Request a prior authorization, or update or cancel one",
            parameters=[openapi.OPTIONAL_KEY],
            takes="Bundle",
            gives="Bundle",
            descriptions={200: "The ClaimResponse: final, or pended if the payer needs more time."},
        ),
    )
    @gate.authorize(CLAIM_WRITE, audits="submission")
    async def submit(request: Request, caller: Caller) -> Response:
        key = parse_idempotency_key(request, is_required=False)
        body = await read_json_body(request, settings.bundle_bytes_max)
        actor = build_actor(caller)
        accepted = await intake.accept(Submission(caller.tenant, key, body, actor, key_from_bundle=True))
        tracked = await answers.wait_for_answer(caller.tenant, accepted.pagw_id, settings.answer_wait_s)
        headers = {"x-pagw-id": accepted.pagw_id, **(REPLAYED if accepted.replayed else {})}
        return build_fhir_response(await answers.read_response(tracked, actor), headers=headers)

    @router.post(
        "/fhir/Claim/$inquire",
        **describe_route(
            "inquireClaim",
            "Find requests matching the example. The caller must supply the member id and be a provider on "
            "the request.",
            takes="Bundle",
            gives="Parameters",
        ),
    )
    @gate.authorize(CLAIM_READ, audits="inquiry")
    async def inquire(request: Request, caller: Caller) -> Response:
        body = await read_json_body(request, MAX_INQUIRY_BYTES)
        inquiry = await asyncio.to_thread(_parse_inquiry_body, body)
        return build_fhir_response(await inquiries.answer(caller.tenant, inquiry, build_actor(caller)))

    return router


def build_metadata_routes(gate: Gate) -> APIRouter:
    """Return the route of the CapabilityStatement."""
    router = APIRouter(tags=["Da Vinci PAS"])

    @router.get(
        "/fhir/metadata",
        **describe_route(
            "getCapabilities", "Get the CapabilityStatement", gives="CapabilityStatement", schemes=()
        ),
    )
    @allow_anonymous
    async def metadata(request: Request) -> Response:
        check_accept(request)
        base = f"{gate.settings.public_url}/fhir"
        return build_fhir_response(build_capability_statement(base, SERVICE_VERSION, CAPABILITIES_DATE))

    return router


def _parse_inquiry_body(body: bytes) -> Inquiry:
    """Parse and check the Bundle of an inquiry. Raise `FhirRefused` if it is invalid."""
    bundle = parse_bundle(body, max_bytes=MAX_INQUIRY_BYTES)
    refuse_errors(check_inquiry(bundle))
    return parse_inquiry(bundle)
