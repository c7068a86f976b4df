"""Routes of the native API: submit (202), list, poll and cancel requests, and read their contents."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast import Stores
from holdfast.core.errors import NotFound
from holdfast.web.tokens import Caller
from pagw.api.cancellation import cancel
from pagw.api.routes import openapi
from pagw.api.routes.auth import CLAIM_READ, CLAIM_WRITE, Gate, build_actor
from pagw.api.routes.errors import Refused
from pagw.api.routes.openapi import describe_route
from pagw.api.routes.parameters import (
    CALLBACK_HEADER,
    build_cursor,
    build_fhir_response,
    parse_cursor,
    parse_idempotency_key,
    parse_limit,
    parse_number_cursor,
    parse_status,
    read_json_body,
)
from pagw.api.routes.views import (
    AcceptedView,
    AuditTrail,
    Deliveries,
    RequestPage,
    RequestView,
    View,
    to_audit_trail,
    to_deliveries,
    to_request_view,
)
from pagw.domain.fhir.outcomes import build_error
from pagw.domain.webhook_addresses import check_address
from pagw.model import delivery_patterns, files, patterns
from pagw.model.audit import record_event
from pagw.model.entities import JSON, RequestRow
from pagw.workers.intake import Intake, Submission
from pagw.workers.related_requests import PAGW_ID
from pagw.workers.responses import ResponseReader, build_read_event, is_answered

REPLAYED: Final = {"idempotency-replayed": "true"}


def build_submission_routes(gate: Gate, intake: Intake) -> APIRouter:
    """Return the routes that submit and cancel requests."""
    router = APIRouter(tags=["requests"])
    settings = gate.settings

    @router.post(
        "/pas/requests",
        **describe_route(
            "submitRequest",
            "Submit a PAS request Bundle",
            parameters=[openapi.KEY, openapi.CALLBACK],
            takes="Bundle",
            gives=AcceptedView,
            status=202,
            descriptions={202: "The gateway accepted the request and is processing it."},
        ),
    )
    @gate.authorize(CLAIM_WRITE, audits="submission")
    async def submit(request: Request, caller: Caller) -> Response:
        key = parse_idempotency_key(request, is_required=settings.idempotency)
        callback_url = request.headers.get(CALLBACK_HEADER)
        if callback_url is not None:
            callback_url = check_address(callback_url, allow_private=settings.private_targets)
        body = await read_json_body(request, settings.bundle_bytes_max)
        accepted = await intake.accept(
            Submission(caller.tenant, key, body, build_actor(caller), callback_url=callback_url)
        )
        headers = {"location": f"/pas/requests/{accepted.pagw_id}", **(REPLAYED if accepted.replayed else {})}
        return build_response(AcceptedView(pagw_id=accepted.pagw_id), 202, headers)

    @router.post(
        "/pas/requests/{pagw_id}/cancel",
        **describe_route(
            "cancelRequest",
            "Cancel a request that has not been sent to its payer",
            parameters=[openapi.PAGW_ID],
            gives=RequestView,
        ),
    )
    @gate.authorize(CLAIM_WRITE, audits="cancellation")
    async def take_back(request: Request, caller: Caller) -> Response:
        found = await get_request(gate.stores, request, caller)
        await cancel(gate.stores, caller.tenant, found.pagw_id, build_actor(caller))
        return build_response(to_request_view(await get_request(gate.stores, request, caller)))

    return router


def build_request_routes(gate: Gate) -> APIRouter:
    """Return the routes that read requests, their audit events and deliveries. Responses hold no patient
    data.
    """
    router = APIRouter(tags=["requests"])
    stores = gate.stores

    @router.get(
        "/pas/requests",
        **describe_route(
            "listRequests",
            "List the tenant's requests, newest first",
            parameters=[openapi.STATUS, openapi.LIMIT, openapi.CURSOR],
            gives=RequestPage,
            schemes=openapi.READ_SCHEMES,
        ),
    )
    @gate.authorize(CLAIM_READ)
    async def requests(request: Request, caller: Caller) -> Response:
        limit, place = parse_limit(request), parse_cursor(request)
        rows = await stores.run(
            patterns.requests_of(
                caller.tenant,
                status=parse_status(request),
                before=None if place is None else place.before,
                before_id=None if place is None else place.before_id,
                limit=limit + 1,
            )
        )
        page = rows[:limit]
        cursor = build_cursor(page[-1].created_at, page[-1].pagw_id) if len(rows) > limit else None
        return build_response(RequestPage(items=[to_request_view(each) for each in page], cursor=cursor))

    @router.get(
        "/pas/requests/{pagw_id}",
        **_describe_request_route("getRequest", "Get a request and its status", RequestView),
    )
    @gate.authorize(CLAIM_READ)
    async def one(request: Request, caller: Caller) -> Response:
        return build_response(to_request_view(await get_request(stores, request, caller)))

    @router.get(
        "/pas/requests/{pagw_id}/audit",
        **_describe_request_route(
            "getAudit",
            "List the audit events of a request, oldest first",
            AuditTrail,
            openapi.LIMIT,
            openapi.CURSOR,
        ),
    )
    @gate.authorize(CLAIM_READ)
    async def audit(request: Request, caller: Caller) -> Response:
        limit, after = parse_limit(request), parse_number_cursor(request)
        found = await get_request(stores, request, caller)
        rows = await stores.run(
            patterns.audit_of(caller.tenant, found.pagw_id, after_id=after, limit=limit + 1)
        )
        cursor = str(rows[limit - 1].id) if len(rows) > limit else None
        return build_response(to_audit_trail(rows[:limit], cursor))

    @router.get(
        "/pas/requests/{pagw_id}/deliveries",
        **_describe_request_route("getDeliveries", "List the webhook deliveries of a request", Deliveries),
    )
    @gate.authorize(CLAIM_READ)
    async def told(request: Request, caller: Caller) -> Response:
        found = await get_request(stores, request, caller)
        return build_response(
            to_deliveries(await stores.run(delivery_patterns.deliveries_of(caller.tenant, found.pagw_id)))
        )

    return router


def build_content_routes(gate: Gate) -> APIRouter:
    """Return the routes of response, bundle and attachments: patient data. Every read is audited before the
    response is sent.
    """
    router = APIRouter(tags=["contents"])
    stores, answers = gate.stores, ResponseReader(gate.stores)

    @router.get(
        "/pas/requests/{pagw_id}/response",
        **_describe_request_route("getResponse", "Get the response to a request", "Bundle"),
    )
    @gate.authorize(CLAIM_READ, audits="contents")
    async def response(request: Request, caller: Caller) -> Response:
        found = await get_request(stores, request, caller)
        if not is_answered(found):
            # A client that polls for the response is not worth an audit row each time.
            wrong = "This request has no response yet. Retry later."
            raise Refused(404, build_error("not-found", wrong), is_audited=False)
        return build_fhir_response(await answers.read_response(found, build_actor(caller)))

    @router.get(
        "/pas/requests/{pagw_id}/bundle",
        **_describe_request_route("getBundle", "Get the Bundle as the client submitted it", "Bundle"),
    )
    @gate.authorize(CLAIM_READ, audits="contents")
    async def bundle(request: Request, caller: Caller) -> Response:
        found = await get_request(stores, request, caller)
        return Response(
            await answers.read_request(found, build_actor(caller)), media_type="application/fhir+json"
        )

    @router.get(
        "/pas/requests/{pagw_id}/attachments/{name}",
        **describe_route(
            "getAttachment",
            "Download an attachment of a request",
            parameters=[openapi.PAGW_ID, openapi.ATTACHMENT],
            schemes=openapi.READ_SCHEMES,
        ),
    )
    @gate.authorize(CLAIM_READ, audits="contents")
    async def attachment(request: Request, caller: Caller) -> Response:
        found = await get_request(stores, request, caller)
        name = request.path_params["name"]
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


async def get_request(stores: Stores, request: Request, caller: Caller) -> RequestRow:
    """Return the caller's request that the path names. Raise `NotFound` for another tenant's, as for an
    unknown one.
    """
    pagw_id = request.path_params["pagw_id"]
    found = None
    if PAGW_ID.fullmatch(pagw_id):
        found = await stores.run(patterns.request(caller.tenant, pagw_id))
    if found is None:
        raise NotFound("No request has this id.")
    return found


def build_response(view: View, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a view as a JSON response."""
    return Response(view.model_dump_json(by_alias=True), status, headers, media_type=JSON)


def _describe_request_route(
    operation_id: str, summary: str, gives: str | type[View], *more: openapi.Parameter
) -> dict[str, Any]:
    """Describe a route that reads one request. `gives` and the result are those of `describe_route`."""
    parameters = [openapi.PAGW_ID, *more]
    return describe_route(
        operation_id, summary, parameters=parameters, gives=gives, schemes=openapi.READ_SCHEMES
    )
