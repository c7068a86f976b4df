"""The page of one request: its state, its contents when revealed, its timeline over the stores."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from holdfast import Stores
from holdfast.console import CurrentUser, Topic, build_row_url, is_fragment, redirect, render
from holdfast.core.errors import InvalidRequest, NotFound
from pagw.api.explain import get_origin, get_request
from pagw.domain.fhir.claim_summary import ClaimSummary
from pagw.domain.fhir.outcomes import FhirRefused
from pagw.domain.statuses import BEFORE_PAYER, TERMINAL, Status
from pagw.model.audit import Actor
from pagw.model.entities import QUEUES, DeliveryRow, RequestRow, pagw
from pagw.ops.phi_access import read_claim
from pagw.ops.redelivery import GIVEN_UP
from pagw.ops.request_trail import RequestTrail, load_trail
from pagw.ops.worklist import newest_event
from pagw.pages.access import SYSTEM, CurrentReader, Reader, build_address
from pagw.pages.actions import get_actor
from pagw.pages.timeline import STORES, build_timeline, count_noun
from pagw.pages.worklist import CLOCKS

TOPIC: Final = "pagw-requests"

StoreName = Literal["", "rows", "objects", "queues", "keys"]


def build_request_topic(stores: Stores) -> Topic:
    """Return the topic that changes with each audit event: every change of a request has one."""

    async def read() -> Hashable:
        newest = await stores.run(newest_event())
        return None if newest is None else newest.id

    return Topic(TOPIC, read)


def build_request_pages(stores: Stores) -> APIRouter:
    """Build the page of a request, and the form that opens one by its id."""
    router = APIRouter(prefix="/requests")

    @router.get("")
    async def open_request(id: Annotated[str, Query(max_length=100)] = "") -> Response:
        try:
            found = await get_request(stores, id.strip())
        except (InvalidRequest, NotFound) as error:
            return redirect(build_address("/worklist", {}), error.message, "problem")
        return redirect(build_address(f"/requests/{found.pagw_id}", {}))

    @router.get("/{pagw_id}")
    async def show_request(
        request: Request,
        user: CurrentUser,
        reader: CurrentReader,
        pagw_id: str,
        store: StoreName = "",
        events_after: Annotated[int, Query(ge=0)] = 0,
    ) -> Response:
        row = await get_request(stores, pagw_id)
        trail = await load_trail(stores, row, events_after=events_after)
        # A live part is loaded again without its user asking: it shows no contents, and so reads none.
        is_shown = reader.is_revealed and not is_fragment(request)
        contents, problem = await _read_contents(stores, row, get_actor(user)) if is_shown else (None, "")
        return render(
            request,
            "pagw/request.html",
            row=row,
            facts=_describe_request(row, stores, reader),
            contents=contents,
            contents_problem=problem,
            timeline=build_timeline(trail, reader, store),
            states=_list_states(trail),
            deliveries=[_describe_delivery(each, reader) for each in trail.deliveries],
            hold=trail.hold,
            hold_reason=reader.mask(trail.hold.reason) if trail.hold else "",
            store=store,
            store_links=_build_store_links(pagw_id, store),
            older=build_address(f"/requests/{pagw_id}", {"store": store}) if events_after else "",
            newer=build_address(f"/requests/{pagw_id}", {"store": store, "events_after": trail.next_events})
            if trail.next_events
            else "",
            here=build_address(f"/requests/{pagw_id}", {}),
            raw=build_row_url(SYSTEM, pagw.name, "request_tracker", {"pagw_id": pagw_id}),
            reader=reader,
            topic=TOPIC,
        )

    return router


async def _read_contents(stores: Stores, row: RequestRow, actor: Actor) -> tuple[ClaimSummary | None, str]:
    """Return the contents in short, or why they cannot be shown."""
    try:
        return await read_claim(stores, row, actor), ""
    except (NotFound, FhirRefused) as error:
        return None, f"The bundle cannot be shown: {error.message}"


def _describe_request(row: RequestRow, stores: Stores, reader: Reader) -> dict[str, Any]:
    """Return state, clock and actions of the request."""
    is_over = row.status in TERMINAL
    return {
        "clock": CLOCKS.get(row.urgency, row.urgency),
        "left_s": None if row.decided_at or is_over else (row.due_at - stores.now()).total_seconds(),
        "is_late": row.decided_at is not None and row.decided_at > row.due_at,
        "error": f"{row.error_code}: {reader.mask(row.error_message) or 'no message'}"
        if row.error_code
        else "",
        "can_replay": row.status not in (Status.COMPLETED, Status.CANCELLED),
        "can_cancel": row.status in BEFORE_PAYER,
        "is_over": is_over,
        "contradicted": "contradicted" in row.metadata,
        "payer_url": build_address(f"/payers/{quote(row.payer_id)}", {}) if row.payer_id else "",
    }


def _describe_delivery(row: DeliveryRow, reader: Reader) -> dict[str, Any]:
    return {
        "id": row.delivery_id,
        "target": get_origin(row.target),
        "subscription": row.subscription_id,
        "status": row.status.replace("_", " "),
        "attempts": row.attempts,
        "error": reader.mask(row.last_error),
        "updated_at": row.updated_at,
        "can_resend": row.status in GIVEN_UP,
    }


def _list_states(trail: RequestTrail) -> list[dict[str, str]]:
    """Return what each store holds of the request now, with the page that shows it."""
    row = trail.request
    unsent = [each for each in trail.messages if not each.processed]
    folder = trail.files[0].key.rsplit("/", 2)[0] if trail.files else ""
    states = [
        {
            "store": "Rows (SQL)",
            "what": f"request {row.status}, {count_noun(len(trail.deliveries), 'notification')}",
            "url": build_row_url(SYSTEM, pagw.name, "request_tracker", {"pagw_id": row.pagw_id}),
        },
        {
            "store": "Objects",
            "what": f"{len(trail.files)}{'+' if trail.has_more_files else ''} files",
            "url": f"/data/{SYSTEM}/bucket:pagw-requests?prefix={quote(folder)}" if folder else "",
        },
        {
            "store": "Outbox",
            "what": f"{count_noun(len(unsent), 'message')} not sent" if unsent else "nothing to send",
            "url": f"/outbox/{SYSTEM}/pagw.outbox",
        },
        _describe_queue(row),
    ]
    states += [
        {"store": "Idempotency keys", "what": f"{each.what}: {each.record.status}", "url": ""}
        for each in trail.keys
    ] or [{"store": "Idempotency keys", "what": "none: they expire after two days", "url": ""}]
    states += [
        {"store": "Cache", "what": f"{each.name}: {_format_cached(each.is_cached)}", "url": ""}
        for each in trail.cache
    ]
    return states


def _describe_queue(row: RequestRow) -> dict[str, str]:
    """Return the queue in which the request's next message is, if a stage is to process it."""
    if row.stage is None or row.stage not in QUEUES:
        who = "its payer has it" if row.stage == "payer" else "no stage has work left"
        return {"store": "Queues", "what": who, "url": ""}
    name = QUEUES[row.stage].name
    return {
        "store": "Queues",
        "what": f"the next stage reads {name}",
        "url": f"/queues/{SYSTEM}/{name}/groups",
    }


def _format_cached(is_cached: bool | None) -> str:
    if is_cached is None:
        return "the cache does not answer"
    return "cached" if is_cached else "not cached"


def _build_store_links(pagw_id: str, store: str) -> list[dict[str, Any]]:
    """Return the filters of the timeline."""
    return [
        {
            "title": title,
            "url": build_address(f"/requests/{pagw_id}", {"store": name}),
            "is_current": name == store,
        }
        for name, title in {"": "All stores", **STORES}.items()
    ]
