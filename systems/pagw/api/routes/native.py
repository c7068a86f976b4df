"""Routes of the native API: submit (202), list, poll and cancel requests, and read their contents."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response, Security

from holdfast import Stores
from holdfast.core.errors import NotFound
from holdfast.web import build_key_reader
from holdfast.web.tokens import Caller
from pagw.api.cancellation import cancel
from pagw.api.routes.auth import CLAIM_READ, CLAIM_WRITE, Gate
from pagw.api.routes.parameters import (
    CallbackUrl,
    FhirBody,
    PagwId,
    RequestedPage,
    build_cursor,
    parse_cursor,
    parse_number_cursor,
)
from pagw.api.routes.refusal_audit import build_actor, stop_auditing
from pagw.api.routes.views import (
    AcceptedView,
    AnyFile,
    AuditTrail,
    Bundle,
    Decisions,
    Deliveries,
    FhirJson,
    RequestPage,
    RequestView,
    to_audit_trail,
    to_decisions,
    to_deliveries,
    to_request_view,
)
from pagw.domain.fhir.outcomes import FhirRefused, build_error
from pagw.domain.statuses import Status
from pagw.domain.webhook_addresses import check_address
from pagw.model import decision_patterns, delivery_patterns, files, patterns
from pagw.model.audit import record_event
from pagw.model.entities import RequestRow
from pagw.workers.intake import Intake, Submission
from pagw.workers.related_requests import PAGW_ID
from pagw.workers.responses import ResponseReader, build_read_event, is_answered

REPLAYED: Final = {"idempotency-replayed": "true"}


def build_submission_routes(gate: Gate, intake: Intake) -> APIRouter:
    """Return the routes that submit and cancel requests."""
    router = APIRouter(tags=["requests"])
    stores, settings = gate.stores, gate.settings

    @router.post(
        "/pas/requests",
        operation_id="submitRequest",
        summary="Submit a PAS request Bundle",
        status_code=202,
        response_description="The gateway accepted the request and is processing it.",
        dependencies=[gate.audit.watch("submission")],
    )
    async def submit(
        caller: Annotated[Caller, Security(gate.bearer, scopes=[CLAIM_WRITE])],
        key: Annotated[str | None, Depends(build_key_reader(is_required=settings.idempotency))],
        body: Annotated[bytes, Depends(FhirBody(Bundle, settings.bundle_bytes_max))],
        response: Response,
        callback_url: CallbackUrl = None,
    ) -> AcceptedView:
        if callback_url is not None:
            callback_url = check_address(callback_url, allow_private=settings.private_targets)
        accepted = await intake.accept(
            Submission(caller.tenant, key, body, build_actor(caller), callback_url=callback_url)
        )
        response.headers["location"] = f"/pas/requests/{accepted.pagw_id}"
        response.headers.update(REPLAYED if accepted.replayed else {})
        return AcceptedView(pagw_id=accepted.pagw_id)

    @router.post(
        "/pas/requests/{pagw_id}/cancel",
        operation_id="cancelRequest",
        summary="Cancel a request that has not been sent to its payer",
        dependencies=[gate.audit.watch("cancellation")],
    )
    async def take_back(
        caller: Annotated[Caller, Security(gate.bearer, scopes=[CLAIM_WRITE])], pagw_id: PagwId
    ) -> RequestView:
        found = await get_request(stores, caller, pagw_id)
        await cancel(stores, caller.tenant, found.pagw_id, build_actor(caller))
        return to_request_view(await get_request(stores, caller, pagw_id))

    return router


def build_request_routes(gate: Gate) -> APIRouter:
    """Return the routes that read requests, their audit events and deliveries. Responses hold no patient
    data.
    """
    router = APIRouter(tags=["requests"], dependencies=[gate.audit.watch()])
    stores = gate.stores

    @router.get(
        "/pas/requests",
        operation_id="listRequests",
        summary="List the tenant's requests, newest first",
    )
    async def requests(
        caller: Annotated[Caller, Security(gate.session, scopes=[CLAIM_READ])],
        page: RequestedPage,
        status: Annotated[Status | None, Query(description="Return only requests with this status.")] = None,
    ) -> RequestPage:
        place = parse_cursor(page.cursor)
        rows = await stores.run(
            patterns.requests_of(
                caller.tenant,
                status=status,
                before=None if place is None else place.before,
                before_id=None if place is None else place.before_id,
                limit=page.limit + 1,
            )
        )
        shown = rows[: page.limit]
        cursor = build_cursor(shown[-1].created_at, shown[-1].pagw_id) if len(rows) > page.limit else None
        return RequestPage(items=[to_request_view(each) for each in shown], cursor=cursor)

    @router.get(
        "/pas/requests/{pagw_id}",
        operation_id="getRequest",
        summary="Get a request and its status",
    )
    async def one(
        caller: Annotated[Caller, Security(gate.session, scopes=[CLAIM_READ])], pagw_id: PagwId
    ) -> RequestView:
        return to_request_view(await get_request(stores, caller, pagw_id))

    @router.get(
        "/pas/requests/{pagw_id}/audit",
        operation_id="getAudit",
        summary="List the audit events of a request, oldest first",
    )
    async def audit(
        caller: Annotated[Caller, Security(gate.session, scopes=[CLAIM_READ])],
        pagw_id: PagwId,
        page: RequestedPage,
    ) -> AuditTrail:
        after = parse_number_cursor(page.cursor)
        found = await get_request(stores, caller, pagw_id)
        rows = await stores.run(
            patterns.audit_of(caller.tenant, found.pagw_id, after_id=after, limit=page.limit + 1)
        )
        cursor = str(rows[page.limit - 1].id) if len(rows) > page.limit else None
        return to_audit_trail(rows[: page.limit], cursor)

    @router.get(
        "/pas/requests/{pagw_id}/decisions",
        operation_id="getDecisions",
        summary="List the payer's decisions on a request, oldest first",
    )
    async def decisions(
        caller: Annotated[Caller, Security(gate.session, scopes=[CLAIM_READ])], pagw_id: PagwId
    ) -> Decisions:
        found = await get_request(stores, caller, pagw_id)
        return to_decisions(await stores.run(decision_patterns.decisions_of(caller.tenant, found.pagw_id)))

    @router.get(
        "/pas/requests/{pagw_id}/deliveries",
        operation_id="getDeliveries",
        summary="List the webhook deliveries of a request",
    )
    async def deliveries(
        caller: Annotated[Caller, Security(gate.session, scopes=[CLAIM_READ])], pagw_id: PagwId
    ) -> Deliveries:
        found = await get_request(stores, caller, pagw_id)
        return to_deliveries(await stores.run(delivery_patterns.deliveries_of(caller.tenant, found.pagw_id)))

    return router


def build_content_routes(gate: Gate) -> APIRouter:
    """Return the routes of response, bundle and attachments: patient data. Every read is audited before the
    response is sent.
    """
    router = APIRouter(tags=["contents"], dependencies=[gate.audit.watch("contents")])
    stores, answers = gate.stores, ResponseReader(gate.stores)

    @router.get(
        "/pas/requests/{pagw_id}/response",
        operation_id="getResponse",
        summary="Get the response to a request",
        response_model=Bundle,
        response_class=FhirJson,
    )
    async def response(
        caller: Annotated[Caller, Security(gate.session, scopes=[CLAIM_READ])],
        pagw_id: PagwId,
        request: Request,
    ) -> Response:
        found = await get_request(stores, caller, pagw_id)
        if not is_answered(found):
            # A client that polls for the response is not worth an audit row each time.
            stop_auditing(request)
            wrong = "This request has no response yet. Retry later."
            raise FhirRefused([build_error("not-found", wrong)], 404)
        return FhirJson(await answers.read_response(found, build_actor(caller)))

    @router.get(
        "/pas/requests/{pagw_id}/bundle",
        operation_id="getBundle",
        summary="Get the Bundle as the client submitted it",
        response_model=Bundle,
        response_class=FhirJson,
    )
    async def bundle(
        caller: Annotated[Caller, Security(gate.session, scopes=[CLAIM_READ])], pagw_id: PagwId
    ) -> Response:
        found = await get_request(stores, caller, pagw_id)
        return FhirJson(await answers.read_request(found, build_actor(caller)))

    @router.get(
        "/pas/requests/{pagw_id}/attachments/{name}",
        operation_id="getAttachment",
        summary="Download an attachment of a request",
        response_class=AnyFile,
    )
    async def attachment(
        caller: Annotated[Caller, Security(gate.session, scopes=[CLAIM_READ])],
        pagw_id: PagwId,
        name: Annotated[str, Path(description="The name of an attachment, for example attachment_001.pdf.")],
    ) -> Response:
        found = await get_request(stores, caller, pagw_id)
        known = {each["name"]: each for each in found.metadata.get("attachments", [])}
        if name not in known:
            raise NotFound("The request has no attachment with this name.")
        number = name.removeprefix("attachment_")
        stored = await stores.run(files.attachment(found.created_at, found.pagw_id, number))
        await record_event(stores, build_read_event(found, build_actor(caller), "attachment"))
        headers = {
            "content-disposition": f'attachment; filename="{name}"',
            "x-content-type-options": "nosniff",
        }
        return Response(stored.body, media_type=known[name]["content_type"], headers=headers)

    return router


async def get_request(stores: Stores, caller: Caller, pagw_id: str) -> RequestRow:
    """Return a request of the caller's tenant. Raise `NotFound` for another's, as for an unknown one."""
    found = None
    if PAGW_ID.fullmatch(pagw_id):
        found = await stores.run(patterns.request(caller.tenant, pagw_id))
    if found is None:
        raise NotFound("No request has this id.")
    return found
