"""Routes of Da Vinci PAS: `$submit` (answered at once or pended), `$inquire` and CapabilityStatement."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Response, Security

from holdfast.core.errors import NotFound
from holdfast.web import build_key_reader
from holdfast.web.tokens import Caller
from pagw.api.inquiries import Inquiries
from pagw.api.routes.auth import CLAIM_READ, CLAIM_WRITE, SCOPES, Gate
from pagw.api.routes.native import REPLAYED
from pagw.api.routes.parameters import FhirBody, check_accept
from pagw.api.routes.refusal_audit import build_actor
from pagw.api.routes.views import Bundle, CapabilityStatement, FhirJson, Parameters, SmartConfiguration
from pagw.domain.fhir.inquiries import Inquiry, parse_inquiry
from pagw.domain.fhir.outcomes import refuse_errors
from pagw.domain.fhir.parser import parse_bundle
from pagw.domain.fhir.responses.capability_statement import build_capability_statement
from pagw.domain.fhir.rules.pas_rules import check_inquiry
from pagw.domain.fhir.smart import build_smart_configuration
from pagw.domain.profiles import LATEST, find_version
from pagw.model.audit import SERVICE_VERSION
from pagw.workers.intake import Intake, Submission
from pagw.workers.responses import ResponseReader

# The date of the last change to the CapabilityStatement.
CAPABILITIES_DATE: Final = datetime(2026, 11, 20, tzinfo=UTC)
# An inquiry names a claim and its participants, without attachments.
MAX_INQUIRY_BYTES: Final = 1_000_000
KEY: Final = "The client's unique key for this request. The default is the identifier of the Bundle."


def build_claim_routes(gate: Gate, intake: Intake) -> APIRouter:
    """Return the routes of `$submit` and `$inquire`."""
    router = APIRouter(tags=["Da Vinci PAS"])
    settings, answers = gate.settings, ResponseReader(gate.stores)
    inquiries = Inquiries(gate.stores, intake.lookup, settings.list_shared_tenants())

    @router.post(
        "/fhir/Claim/$submit",
        operation_id="submitClaim",
        summary="Request a prior authorization, or update or cancel one",
        response_model=Bundle,
        response_class=FhirJson,
        response_description="The ClaimResponse: final, or pended if the payer needs more time.",
        dependencies=[gate.audit.watch("submission")],
    )
    async def submit(
        caller: Annotated[Caller, Security(gate.bearer, scopes=[CLAIM_WRITE])],
        key: Annotated[str | None, Depends(build_key_reader(is_required=False, description=KEY))],
        body: Annotated[bytes, Depends(FhirBody(Bundle, settings.bundle_bytes_max))],
    ) -> Response:
        actor = build_actor(caller)
        accepted = await intake.accept(Submission(caller.tenant, key, body, actor, key_from_bundle=True))
        tracked = await answers.wait_for_answer(caller.tenant, accepted.pagw_id, settings.answer_wait_s)
        headers = {"x-pagw-id": accepted.pagw_id, **(REPLAYED if accepted.replayed else {})}
        return FhirJson(await answers.read_response(tracked, actor), headers=headers)

    @router.post(
        "/fhir/Claim/$inquire",
        operation_id="inquireClaim",
        summary="Find requests matching the example. The caller must supply the member id and be a provider "
        "on the request.",
        response_model=Parameters,
        response_class=FhirJson,
        dependencies=[gate.audit.watch("inquiry")],
    )
    async def inquire(
        caller: Annotated[Caller, Security(gate.bearer, scopes=[CLAIM_READ])],
        body: Annotated[bytes, Depends(FhirBody(Bundle, MAX_INQUIRY_BYTES))],
    ) -> Response:
        inquiry = await asyncio.to_thread(_parse_inquiry_body, body)
        return FhirJson(await inquiries.answer(caller.tenant, inquiry, build_actor(caller)))

    return router


def build_metadata_routes(gate: Gate) -> APIRouter:
    """Return the routes of the CapabilityStatement and of the SMART configuration."""
    router = APIRouter(tags=["Da Vinci PAS"], dependencies=[Depends(check_accept)])

    @router.get(
        "/fhir/metadata",
        operation_id="getCapabilities",
        summary="Get the CapabilityStatement",
        response_model=CapabilityStatement,
        response_class=FhirJson,
    )
    async def metadata() -> Response:
        base, token_url = f"{gate.settings.public_url}/fhir", gate.settings.token_url
        return FhirJson(
            build_capability_statement(base, SERVICE_VERSION, CAPABILITIES_DATE, token_url=token_url)
        )

    @router.get(
        "/fhir/.well-known/smart-configuration",
        operation_id="getSmartConfiguration",
        summary="Get the SMART configuration: the issuer of clients' tokens and the scopes",
    )
    async def smart_configuration() -> SmartConfiguration:
        settings = gate.settings
        if not (settings.token_url and settings.jwks_url and settings.token_issuer):
            raise NotFound("The gateway has no SMART configuration: its operator has not set PAGW_TOKEN_URL.")
        found = build_smart_configuration(
            issuer=settings.token_issuer,
            jwks_url=settings.jwks_url,
            token_url=settings.token_url,
            scopes=SCOPES,
        )
        return SmartConfiguration(**found)

    return router


def _parse_inquiry_body(body: bytes) -> Inquiry:
    """Parse and check the Bundle of an inquiry. Raise `FhirRefused` if it is invalid."""
    bundle = parse_bundle(body, max_bytes=MAX_INQUIRY_BYTES)
    refuse_errors(check_inquiry(bundle, find_version(bundle) or LATEST))
    return parse_inquiry(bundle)
