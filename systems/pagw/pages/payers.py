"""Payers: their health, backlog, limits and clocks, and what was said in the last calls to each."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from holdfast import Stores
from holdfast.console import build_row_url, render
from holdfast.core.errors import NotFound, SettingsError
from pagw.domain.deadlines import DECISION_LIMITS, EXPEDITED, STANDARD
from pagw.integrations.payers.config import PayerConfig, parse_payer_config
from pagw.integrations.payers.connection import CONNECT_S
from pagw.model.entities import MAX_RECEIVES, PayerRow, pagw
from pagw.model.payer_calls import KEPT_DAYS, MAX_SHOWN, PayerCallRow
from pagw.model.rate_limits import MAX_CALLBACKS as MAX_CALLBACKS_PER_MINUTE
from pagw.ops import registry
from pagw.ops.payer_health import FAILING_CALLS, PayerHealth, PayerState, get_payer_health, list_payers
from pagw.pages.access import SYSTEM, CurrentReader, build_address
from pagw.workers import payer_polling
from pagw.workers.payer_callbacks import MAX_CALLBACKS
from pagw.workers.stages.api_connector import ACT_S

STATE_KINDS: Final = {
    PayerState.not_called: "plain",
    PayerState.answers: "good",
    PayerState.unsteady: "warn",
    PayerState.failing: "bad",
}
_SHOWN_ELSEWHERE: Final = {"payer_id", "name", "answer_s", "credentials_arn", "callback_secret"}
_LABELS: Final = {
    "api_endpoint": "Address",
    "auth_type": "Authentication",
    "client_id": "Client id",
    "token_url": "Token address",
    "scope": "Scope of tokens",
}


def build_payer_pages(stores: Stores) -> APIRouter:
    """Build the list of payers and the page of one."""
    router = APIRouter(prefix="/payers")

    @router.get("")
    async def show_payers(
        request: Request, reader: CurrentReader, after: Annotated[str, Query(max_length=50)] = ""
    ) -> Response:
        page = await list_payers(stores, after)
        return render(
            request,
            "pagw/payers.html",
            payers=[_describe_health(each) for each in page.payers],
            is_partial=page.is_partial,
            next=build_address("/payers", {"after": page.next_after}) if page.next_after else "",
            failing_calls=FAILING_CALLS,
            reader=reader,
        )

    @router.get("/{payer_id}")
    async def show_payer(request: Request, reader: CurrentReader, payer_id: str) -> Response:
        found = await get_payer_health(stores, payer_id)
        if found is None:
            raise NotFound("No payer with this id is configured. The list of payers shows those that are.")
        health, is_partial = found
        config, problem = _parse_config(health.payer)
        return render(
            request,
            "pagw/payer.html",
            payer=_describe_health(health),
            row=health.payer,
            config=[] if config is None else _list_config(config),
            problem=problem,
            limits=_list_limits(config),
            secrets=[] if config is None else sorted(registry.get_required_secrets(health.payer).items()),
            calls=[_describe_call(each) for each in health.calls],
            is_partial=is_partial,
            raw=build_row_url(SYSTEM, pagw.name, "payer_config", {"payer_id": payer_id}),
            worklist=build_address("/worklist", {"view": "pended", "payer": payer_id}),
            overdue=build_address("/worklist", {"view": "overdue", "payer": payer_id}),
            metrics=build_address("/metrics", {"payer": payer_id}),
            max_shown=MAX_SHOWN,
            kept_days=KEPT_DAYS,
            reader=reader,
        )

    return router


def _describe_health(health: PayerHealth) -> dict[str, Any]:
    """Return what the pages show of a payer's health."""
    answer, backlog = health.last_answer, health.backlog
    return {
        "id": health.payer.payer_id,
        "name": health.payer.name,
        "format": health.payer.format,
        "url": build_address(f"/payers/{quote(health.payer.payer_id)}", {}),
        "state": health.state,
        "kind": STATE_KINDS[health.state],
        "failing_since": health.failing_since if health.state is PayerState.failing else None,
        "calls": len(health.calls),
        "failed": health.failed,
        "answer": answer.outcome if answer else "",
        "answered_at": answer.at if answer else None,
        "median_s": None if health.median_ms is None else health.median_ms / 1000,
        "p95_s": None if health.p95_ms is None else health.p95_ms / 1000,
        "unsent": backlog.unsent if backlog else 0,
        "pended": backlog.pended if backlog else 0,
        "overdue": backlog.overdue if backlog else 0,
        "next_due": backlog.next_due if backlog else None,
    }


def _describe_call(call: PayerCallRow) -> dict[str, Any]:
    return {
        "at": call.at,
        "pagw_id": call.pagw_id,
        "action": call.action,
        "outcome": call.outcome,
        "kind": {"failed": "bad", "refused": "bad", "pended": "warn", "unknown": "plain"}.get(
            call.outcome, "good"
        ),
        "error": call.error_code or "",
        "took_s": call.took_ms / 1000,
    }


def _parse_config(row: PayerRow) -> tuple[PayerConfig | None, str]:
    """Return the payer's checked configuration, or what is wrong with it."""
    try:
        return parse_payer_config(row.model_dump()), ""
    except SettingsError as error:
        return None, error.message


def _list_config(config: PayerConfig) -> list[tuple[str, str]]:
    """Return the fields of a configuration, without those that name secrets: each is listed by itself."""
    shown = config.model_dump(mode="json", exclude_none=True, exclude=_SHOWN_ELSEWHERE)
    return [
        (_LABELS.get(name, name.replace("_", " ").capitalize()), str(value)) for name, value in shown.items()
    ]


def _list_limits(config: PayerConfig | None) -> list[tuple[str, str]]:
    """Return the limits and clocks of calls to a payer and of its decisions."""
    hours = {each: limit.total_seconds() / 3600 for each, limit in DECISION_LIMITS.items()}
    inquiries = payer_polling
    return [
        ("Connection", f"{CONNECT_S:g} s"),
        ("Answer", f"{config.answer_s:g} s" if config else "unknown: the configuration is invalid"),
        ("Time to act", f"{ACT_S:g} s; later, the outcome is looked up before the call is repeated"),
        ("Attempts", f"{MAX_RECEIVES} with growing pauses, about two hours; then an operator redrives"),
        (
            "Inquiries about a pended request",
            f"after {inquiries.FIRST_PAUSE.total_seconds() / 3600:g} h, then with doubled pauses up to "
            f"{inquiries.LONGEST_PAUSE.total_seconds() / 3600:g} h, and "
            f"{inquiries.BEFORE_DUE.total_seconds() / 3600:g} h before the decision is due",
        ),
        ("Callbacks", f"{MAX_CALLBACKS_PER_MINUTE:,} per minute, {MAX_CALLBACKS} per request"),
        ("Decision, expedited", f"{hours[EXPEDITED]:g} hours after acceptance"),
        ("Decision, standard", f"{hours[STANDARD] / 24:g} days after acceptance"),
    ]
