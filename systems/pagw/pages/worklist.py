"""The worklist: requests and deliveries that need a person, in views with filters in the address."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from holdfast import Stores
from holdfast.console import OpenQuestions, Topic, render
from pagw.api.explain import get_origin
from pagw.domain.statuses import BEFORE_PAYER, Status
from pagw.ops import registry
from pagw.ops.redelivery import GIVEN_UP
from pagw.ops.worklist import (
    MAX_COUNTED,
    HeldItem,
    Row,
    UndeliveredItem,
    View,
    WorkCounts,
    WorkFilter,
    WorkItem,
    count_work,
    read_work,
)
from pagw.pages.access import CurrentReader, Reader, build_address
from pagw.settings import PagwSettings

TOPIC: Final = "pagw-worklist"
CLOCKS: Final = {"expedited": "72 hours", "standard": "7 days"}

Clock = Literal["", "expedited", "standard"]


@dataclass(frozen=True)
class ViewText:
    """The words of a view: its tab, what it lists, and what its emptiness means."""

    title: str
    lead: str
    empty: str
    hint: str


VIEWS: Final = {
    View.overdue: ViewText(
        "Overdue",
        "Undecided requests past their time: 72 hours if expedited, 7 days if standard. Replay a pended one "
        "to ask its payer now, or call the payer.",
        "No request is overdue",
        "Each request gets a clock when it is accepted. It stops when the payer's first decision arrives.",
    ),
    View.soon: ViewText(
        "Due in 24 h",
        "Undecided requests that become overdue within a day, the earliest first.",
        "No request is due within a day",
        "The gateway asks each payer once more 12 hours before the time is over.",
    ),
    View.pended: ViewText(
        "Pended",
        "Requests that wait for their payer's decision, the earliest due first. The gateway inquires by "
        "itself, at least once a day; a replay inquires now.",
        "No request is pended",
        "A payer that needs time answers with pended. The request stays here until the payer calls back or "
        "answers an inquiry.",
    ),
    View.contradicted: ViewText(
        "Contradicted",
        "Requests whose payer sent an answer that contradicts itself, contradicts an earlier decision, or "
        "cannot be read. Ask the payer which answer is right; a valid callback resumes a failed request.",
        "No payer has contradicted itself",
        "The gateway corrects no decision: only the payer knows which of two values is right.",
    ),
    View.stuck: ViewText(
        "Stuck",
        "Active requests without progress, the oldest first. A request that waits for its payer is not "
        "stuck. Replay sends it to its stage again; the stage does nothing twice.",
        "No request is stuck",
        "A request counts as stuck after PAGW_STUCK_MINUTES without progress. If several are, see whether "
        "the workers run.",
    ),
    View.failed: ViewText(
        "Failed",
        "Requests that ended with an error, newest first. Fix the cause, then replay: a request resumes "
        "where it failed, and its client is notified of the new end.",
        "No request has failed",
        "A request fails when a payer refuses it, or when a stage cannot continue. Its client is notified.",
    ),
    View.undelivered: ViewText(
        "Undelivered",
        "Notifications that their clients have not accepted, newest first. Those given up can be sent again "
        "once the client's server answers.",
        "Every notification was delivered",
        "A notification is tried with growing pauses and then given up. Its client can still read the "
        "result.",
    ),
    View.held: ViewText(
        "On hold",
        "Requests under a legal hold: neither retention nor the bucket removes them or their files.",
        "No request is under a legal hold",
        "Place a hold on the page of a request, with a reason such as a case number.",
    ),
}


def build_worklist_topic(stores: Stores) -> Topic:
    """Return the topic that changes when a view grows or shrinks."""

    async def read() -> Hashable:
        return tuple((await count_work(stores)).model_dump().values())

    return Topic(TOPIC, read)


def build_open_questions(stores: Stores) -> OpenQuestions:
    """Return the count of cases that need a person, for the overview and the work page of the console."""

    async def count() -> int:
        return (await count_work(stores)).waiting

    return OpenQuestions(count, "/worklist")


def build_worklist_pages(stores: Stores) -> APIRouter:
    """Build the page of the worklist."""
    router = APIRouter()

    @router.get("/worklist")
    async def show_worklist(
        request: Request,
        reader: CurrentReader,
        view: View | None = None,
        payer: Annotated[str, Query(max_length=50)] = "",
        clock: Clock = "",
        after: Annotated[str, Query(max_length=200)] = "",
    ) -> Response:
        counts = await count_work(stores)
        chosen = view or _choose_view(counts)
        page = await read_work(stores, chosen, WorkFilter(payer or None, clock or None), after)
        asked = {"view": chosen, "payer": payer, "clock": clock}
        return render(
            request,
            "pagw/worklist.html",
            view=chosen,
            text=VIEWS[chosen],
            tabs=_build_tabs(counts, chosen, payer, clock),
            rows=[_describe_row(each, stores.now(), reader) for each in page.rows],
            is_filtered=bool(payer or clock),
            examined=page.examined,
            first=build_address("/worklist", asked) if after else "",
            next=build_address("/worklist", {**asked, "after": page.cursor}) if page.cursor else "",
            here=build_address("/worklist", {**asked, "after": after}),
            payers=[each.payer_id for each in await stores.run(registry.payers())],
            payer=payer,
            clock=clock,
            clocks=CLOCKS,
            stuck_minutes=PagwSettings.load().stuck_minutes,
            reader=reader,
            topic=TOPIC,
        )

    return router


def _choose_view(counts: WorkCounts) -> View:
    """Return the first view with rows, in the order of urgency."""
    return next((each for each in View if getattr(counts, each.value)), View.overdue)


def _build_tabs(counts: WorkCounts, chosen: View, payer: str, clock: str) -> list[dict[str, Any]]:
    """Return the links to the views with their counts, which the filters do not narrow."""
    return [
        {
            "title": text.title,
            "url": build_address("/worklist", {"view": view, "payer": payer, "clock": clock}),
            "count": format_count(getattr(counts, view.value)),
            "is_current": view is chosen,
        }
        for view, text in VIEWS.items()
    ]


def format_count(count: int) -> str:
    """Return a bounded count: `100+` for more than the largest."""
    return f"{MAX_COUNTED}+" if count > MAX_COUNTED else str(count)


# --- rows ---------------------------------------------------------------------------------------------------


def _describe_row(row: Row, now: datetime, reader: Reader) -> dict[str, Any]:
    """Return what the list shows of a row."""
    shown = {
        "pagw_id": row.pagw_id,
        "tenant": row.tenant,
        "payer": row.payer_id or "",
        "clock": CLOCKS.get(row.urgency, row.urgency),
        "urgency": row.urgency,
    }
    if isinstance(row, UndeliveredItem):
        return shown | _describe_delivery(row, reader)
    if isinstance(row, HeldItem):
        held = {"reason": reader.mask(row.reason), "by": row.placed_by, "at": row.placed_at}
        return shown | held | {"status": row.status}
    return shown | describe_work_item(row, now)


def describe_work_item(row: WorkItem, now: datetime) -> dict[str, Any]:
    """Return state, clock and actions of a request."""
    return {
        "status": row.status,
        "stage": row.stage,
        "kind": row.kind,
        "error": row.error_code,
        "decision": row.decision,
        "retries": row.retry_count,
        "due_at": row.due_at,
        "left_s": None if row.decided_at else (row.due_at - now).total_seconds(),
        "idle_s": (now - row.updated_at).total_seconds(),
        "updated_at": row.updated_at,
        "can_replay": row.status not in (Status.COMPLETED, Status.CANCELLED),
        "can_cancel": row.status in BEFORE_PAYER,
    }


def _describe_delivery(row: UndeliveredItem, reader: Reader) -> dict[str, Any]:
    return {
        "delivery_id": row.delivery_id,
        "target": get_origin(row.target),
        "subscription": row.subscription_id,
        "status": row.status.replace("_", " "),
        "attempts": row.attempts,
        "error": reader.mask(row.last_error),
        "updated_at": row.updated_at,
        "can_resend": row.status in GIVEN_UP,
    }
