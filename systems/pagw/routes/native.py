"""The native API: a request is accepted at once (202) and followed by its id."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast import Stores
from holdfast.errors import NotFound
from holdfast.web.tokens import Caller
from pagw import files, notices, patterns
from pagw.auditing import record
from pagw.callable_addresses import checked_address
from pagw.cancelling import cancel
from pagw.fhir.outcomes import error
from pagw.formers import PAGW_ID
from pagw.intake import Intake, Submission
from pagw.model import JSON, Tracked
from pagw.routes import describing
from pagw.routes.asking import (
    CALLBACK_HEADER,
    cursor_after,
    fhir_answer,
    idempotency_key,
    json_body,
    limit_of,
    number_of,
    place_of,
    status_of,
)
from pagw.routes.describing import described
from pagw.routes.guarding import CLAIM_READ, CLAIM_WRITE, Gate, actor_of
from pagw.routes.refusals import Refused
from pagw.routes.views import (
    AcceptedView,
    AuditTrail,
    Deliveries,
    RequestPage,
    RequestView,
    View,
    deliveries,
    shown,
    trail,
)
from pagw.waiting import Answers, is_answered, read_event

REPLAYED: Final = {"idempotency-replayed": "true"}


def submission_routes(gate: Gate, intake: Intake) -> APIRouter:
    router = APIRouter(tags=["requests"])
    settings = gate.settings

    @router.post(
        "/pas/requests",
        **described(
            "submitRequest",
            "Submit a PAS request Bundle",
            parameters=[describing.KEY, describing.CALLBACK],
            takes="Bundle",
            gives=AcceptedView,
            status=202,
            told={202: "It is tracked, and worked on."},
        ),
    )
    @gate.serves(CLAIM_WRITE, audits="submission")
    async def submit(request: Request, caller: Caller) -> Response:
        key = idempotency_key(request, is_needed=settings.idempotency)
        callback_url = request.headers.get(CALLBACK_HEADER)
        if callback_url is not None:
            callback_url = checked_address(callback_url, allow_private=settings.private_targets)
        body = await json_body(request, settings.bundle_bytes_max)
        accepted = await intake.accept(
            Submission(caller.tenant, key, body, actor_of(caller), callback_url=callback_url)
        )
        headers = {"location": f"/pas/requests/{accepted.pagw_id}", **(REPLAYED if accepted.replayed else {})}
        return answer_of(AcceptedView(pagw_id=accepted.pagw_id), 202, headers)

    @router.post(
        "/pas/requests/{pagw_id}/cancel",
        **described(
            "cancelRequest",
            "Take a request back that its payer does not have yet",
            parameters=[describing.PAGW_ID],
            gives=RequestView,
        ),
    )
    @gate.serves(CLAIM_WRITE, audits="cancellation")
    async def take_back(request: Request, caller: Caller) -> Response:
        found = await tracked(gate.stores, request, caller)
        await cancel(gate.stores, caller.tenant, found.pagw_id, actor_of(caller))
        return answer_of(shown(await tracked(gate.stores, request, caller)))

    return router


def request_routes(gate: Gate) -> APIRouter:
    """Where requests stand. None of this is about a patient."""
    router = APIRouter(tags=["requests"])
    stores = gate.stores

    @router.get(
        "/pas/requests",
        **described(
            "listRequests",
            "The tenant's requests, newest first",
            parameters=[describing.STATUS, describing.LIMIT, describing.CURSOR],
            gives=RequestPage,
            proofs=describing.READS,
        ),
    )
    @gate.serves(CLAIM_READ)
    async def requests(request: Request, caller: Caller) -> Response:
        limit, place = limit_of(request), place_of(request)
        rows = await stores.run(
            patterns.requests_of(
                caller.tenant,
                status=status_of(request),
                before=None if place is None else place.before,
                before_id=None if place is None else place.before_id,
                limit=limit + 1,
            )
        )
        page = rows[:limit]
        cursor = cursor_after(page[-1].created_at, page[-1].pagw_id) if len(rows) > limit else None
        return answer_of(RequestPage(items=[shown(each) for each in page], cursor=cursor))

    @router.get("/pas/requests/{pagw_id}", **_of_one("getRequest", "Where a request stands", RequestView))
    @gate.serves(CLAIM_READ)
    async def one(request: Request, caller: Caller) -> Response:
        return answer_of(shown(await tracked(stores, request, caller)))

    @router.get(
        "/pas/requests/{pagw_id}/audit",
        **_of_one(
            "getAudit", "What was done with it, oldest first", AuditTrail, describing.LIMIT, describing.CURSOR
        ),
    )
    @gate.serves(CLAIM_READ)
    async def audit(request: Request, caller: Caller) -> Response:
        limit, after = limit_of(request), number_of(request)
        found = await tracked(stores, request, caller)
        rows = await stores.run(
            patterns.audit_of(caller.tenant, found.pagw_id, after_id=after, limit=limit + 1)
        )
        cursor = str(rows[limit - 1].id) if len(rows) > limit else None
        return answer_of(trail(rows[:limit], cursor))

    @router.get(
        "/pas/requests/{pagw_id}/deliveries", **_of_one("getDeliveries", "Who was told of it", Deliveries)
    )
    @gate.serves(CLAIM_READ)
    async def told(request: Request, caller: Caller) -> Response:
        found = await tracked(stores, request, caller)
        return answer_of(deliveries(await stores.run(notices.deliveries_of(caller.tenant, found.pagw_id))))

    return router


def content_routes(gate: Gate) -> APIRouter:
    """What is about a patient. Every read is audited before it is answered."""
    router = APIRouter(tags=["contents"])
    stores, answers = gate.stores, Answers(gate.stores)

    @router.get("/pas/requests/{pagw_id}/response", **_of_one("getResponse", "The answer to it", "Bundle"))
    @gate.serves(CLAIM_READ, audits="contents")
    async def response(request: Request, caller: Caller) -> Response:
        found = await tracked(stores, request, caller)
        if not is_answered(found):
            # Who asks again and again until there is one does nothing that is worth a row each time.
            wrong = "There is no answer to this request yet."
            raise Refused(404, error("not-found", wrong), is_audited=False)
        return fhir_answer(await answers.bundle(found, actor_of(caller)))

    @router.get("/pas/requests/{pagw_id}/bundle", **_of_one("getBundle", "The Bundle as it came", "Bundle"))
    @gate.serves(CLAIM_READ, audits="contents")
    async def bundle(request: Request, caller: Caller) -> Response:
        found = await tracked(stores, request, caller)
        return Response(await answers.original(found, actor_of(caller)), media_type="application/fhir+json")

    @router.get(
        "/pas/requests/{pagw_id}/attachments/{name}",
        **described(
            "getAttachment",
            "An attachment, as it was taken out of the Bundle",
            parameters=[describing.PAGW_ID, describing.ATTACHMENT],
            proofs=describing.READS,
        ),
    )
    @gate.serves(CLAIM_READ, audits="contents")
    async def attachment(request: Request, caller: Caller) -> Response:
        found = await tracked(stores, request, caller)
        name = request.path_params["name"]
        known = {each["name"]: each for each in found.metadata.get("attachments", [])}
        if name not in known:
            raise NotFound("The request has no attachment of this name.")
        number = name.removeprefix("attachment_")
        kept = await stores.run(files.attachment(found.created_at, found.pagw_id, number))
        await record(stores, read_event(found, actor_of(caller), "attachment"))
        headers = {
            "content-disposition": f'attachment; filename="{name}"',
            "x-content-type-options": "nosniff",
        }
        return Response(kept.body, media_type=known[name]["content_type"], headers=headers)

    return router


async def tracked(stores: Stores, request: Request, caller: Caller) -> Tracked:
    """The caller's own request that the address names. Another tenant's is not there, as one that nobody has."""
    pagw_id = request.path_params["pagw_id"]
    found = None
    if PAGW_ID.fullmatch(pagw_id):
        found = await stores.run(patterns.request(caller.tenant, pagw_id))
    if found is None:
        raise NotFound("There is no request of this id.")
    return found


def answer_of(view: View, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(view.model_dump_json(by_alias=True), status, headers, media_type=JSON)


def _of_one(
    operation_id: str, summary: str, gives: str | type[View], *more: describing.Parameter
) -> dict[str, Any]:
    parameters = [describing.PAGW_ID, *more]
    return described(operation_id, summary, parameters=parameters, gives=gives, proofs=describing.READS)
