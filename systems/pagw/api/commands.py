"""Operators' commands: `holdfast pagw status`, `holdfast pagw replay PAGW-…`, and so on.

Each function takes the stores of the component `operator` and the typed arguments. They show ids, states and
times only: contents are for the request's client, whose reads are audited. For dead letters use `holdfast
queues redrive`, for dead outbox messages `holdfast outbox redrive`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from holdfast import Page, Stores
from holdfast.core.errors import HoldfastError, SecretMissing, error_label
from holdfast.model.system import Command, Explanation, Listing
from holdfast.runtime import open_secrets
from pagw.api import explain, mcp_tools, payer_commands
from pagw.api.bundle_check import CHECK_COMMANDS
from pagw.domain.statuses import Status
from pagw.model.audit import Actor
from pagw.model.entities import Provider
from pagw.model.environments import ENVIRONMENTS, get_audit_bucket_name, get_request_bucket_name
from pagw.model.lookup import KEY_SECRET
from pagw.ops import legal_holds, monitoring, registry, request_replay, retention
from pagw.ops.annual_report import build_annual_report, format_report, to_json
from pagw.settings import PagwSettings
from pagw.workers import sweeper

COMPONENT: Final = "operator"
PAGE_SIZE: Final = 50

RequestArg = Annotated[str, "The id of the request: PAGW-…"]
ByArg = Annotated[str, "Your name, for the audit log"]
LimitArg = Annotated[int, "The maximum number of requests to show"]

REQUEST_COLUMNS: Final = ("pagw_id", "tenant", "status", "stage", "payer_id", "decision", "created_at")


# --- status -------------------------------------------------------------------------------------------------


async def status(stores: Stores) -> Any:
    """Show the gateway's status: requests by status, outbox, durations, stuck and overdue requests."""
    found = await monitoring.get_status(stores, minutes := PagwSettings.load().stuck_minutes)
    return Explanation(monitoring.format_status(found, minutes), found)


async def requests_list(
    stores: Stores,
    tenant: Annotated[str | None, "Only requests of this tenant"] = None,
    status: Annotated[Status | None, "Only requests with this status"] = None,
    limit: LimitArg = PAGE_SIZE,
) -> Any:
    """List the newest requests."""
    found = await stores.run(monitoring.newest(tenant, status, limit))
    return Listing(Page(tuple(explain.to_pointers(each) for each in found)), REQUEST_COLUMNS)


async def requests_show(stores: Stores, request: RequestArg) -> Any:
    """Show a request's current state; `holdfast why pagw` explains its whole trail."""
    return explain.to_pointers(await explain.get_request(stores, request))


async def stuck(
    stores: Stores,
    minutes: Annotated[int | None, "Minutes without progress; default: PAGW_STUCK_MINUTES"] = None,
    limit: LimitArg = PAGE_SIZE,
) -> Any:
    """List requests without progress, longest first."""
    since = PagwSettings.load().stuck_minutes if minutes is None else minutes
    now = _get_now(stores)
    found = await stores.run(monitoring.stuck_since(now - timedelta(minutes=since), limit))
    return [mcp_tools.describe_stuck(each, now) for each in found]


async def overdue(
    stores: Stores,
    hours: Annotated[int, "Include requests due within this many hours"] = 24,
    limit: LimitArg = PAGE_SIZE,
) -> Any:
    """List undecided requests that are late or due soon (limits: 72 hours expedited, 7 days standard)."""
    now = _get_now(stores)
    found = await stores.run(monitoring.due_before(now + timedelta(hours=hours), limit))
    return [mcp_tools.describe_due(each, now) for each in found]


async def metrics(
    stores: Stores,
    year: Annotated[int | None, "The year; default: the last complete one"] = None,
    payer: Annotated[str | None, "Only decisions of this payer"] = None,
) -> Any:
    """Show the annual report of CMS-0057-F: approvals, denials and durations by urgency."""
    this_year = _get_now(stores).year
    report = await build_annual_report(stores, this_year - 1 if year is None else year, payer)
    lines = format_report(report)
    if year is None:
        lines.append(
            f"This is {report.year}, the last complete year; `--year {this_year}` reports the current year "
            "so far."
        )
    return Explanation(lines, to_json(report))


# --- processing ---------------------------------------------------------------------------------------------


async def replay(stores: Stores, request: RequestArg, by: ByArg = COMPONENT) -> Any:
    """Send a request to its stage again; a failed one resumes where it failed."""
    await explain.get_request(stores, request)
    stage = await request_replay.replay(stores, request, Actor("user", by))
    return f"Sent {request} to {stage.service} again."


async def sweep(
    stores: Stores,
    months: Annotated[int, "The number of months to sweep, including the current one"] = sweeper.MONTHS,
) -> Any:
    """Remove files older than three days that no database row refers to.

    Also remove rows of sent outbox messages and old inbox rows. Return the numbers removed.
    """
    swept = await sweeper.sweep(stores, months)
    sent, taken = await sweeper.sweep_messages(stores)
    return {"files": swept.files, "requests": swept.requests, "outbox_rows": sent, "inbox_rows": taken}


async def retain(
    stores: Stores,
    dry_run: Annotated[bool, "Only count, remove nothing"] = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Any:
    """Remove requests past their retention (PAGW_RETENTION_YEARS), except those under a legal hold."""
    return await retention.apply_retention(stores, PagwSettings.load(), dry_run=dry_run, progress=progress)


# --- registries ---------------------------------------------------------------------------------------------


async def providers_put(
    stores: Stores,
    npi: Annotated[str, "The National Provider Identifier: ten digits"],
    name: Annotated[str, "The display name"],
    type: Annotated[str | None, "The kind of provider"] = None,
    endpoints: Annotated[dict[str, Any] | None, "The provider's addresses, as a JSON object"] = None,
    credentials: Annotated[str | None, "The name or ARN of the provider's secret"] = None,
    by: ByArg = COMPONENT,
) -> Any:
    """Register or update a provider."""
    row = Provider(npi=npi, name=name, type=type, endpoints=endpoints or {}, credentials_arn=credentials)
    return await registry.register_provider(stores, row, Actor("user", by))


async def providers_list(stores: Stores, after: Annotated[str, "Only NPIs after this one"] = "") -> Any:
    """List the registered providers."""
    found = await stores.run(registry.providers(after))
    return Listing(Page(tuple(each.model_dump(mode="json") for each in found)), ("npi", "name", "type"))


# --- legal holds --------------------------------------------------------------------------------------------


async def holds_place(
    stores: Stores,
    request: RequestArg,
    reason: Annotated[str, "The reason, such as a case number"],
    by: ByArg = COMPONENT,
) -> Any:
    """Place a legal hold: keep a request and all its files beyond its retention."""
    await explain.get_request(stores, request)
    held = await legal_holds.place_hold(stores, request, reason, Actor("user", by))
    return f"Placed a legal hold on {request} and {held} files."


async def holds_lift(stores: Stores, request: RequestArg, by: ByArg = COMPONENT) -> Any:
    """Lift a request's legal hold."""
    freed = await legal_holds.lift_hold(stores, request, Actor("user", by))
    return f"Lifted the legal hold on {request} and {freed} files."


async def holds_list(stores: Stores) -> Any:
    """List the requests under a legal hold."""
    return [each.model_dump(mode="json") for each in await stores.run(legal_holds.holds())]


# --- setup --------------------------------------------------------------------------------------------------


async def environments(stores: Stores) -> Any:
    """List the environments: region, table, database, buckets."""
    return [
        {
            "environment": each.name,
            "region": each.region,
            "table": each.idempotency_table,
            "database": each.database,
            "requests": get_request_bucket_name(each.name),
            "audit": get_audit_bucket_name(each.name),
        }
        for each in ENVIRONMENTS.values()
    ]


async def secrets(
    stores: Stores,
    tenants: Annotated[str, "Tenants with signed webhooks, separated by commas"] = "",
) -> Any:
    """List the names of the secrets that the gateway needs and whether each is set, never their values."""
    purposes = {KEY_SECRET: "key of the hashes that find members and claims; never rotated"}
    for payer in await stores.run(registry.payers()):
        purposes |= registry.get_required_secrets(payer)
    for tenant in filter(None, (each.strip() for each in tenants.split(","))):
        purposes[f"pagw/webhooks/{tenant}"] = f"signature of webhooks to {tenant}"
    return await asyncio.to_thread(_check_secrets, purposes)


def _check_secrets(wanted: dict[str, str]) -> list[dict[str, str]]:
    """Return name, purpose and state of each secret. `wanted` maps names to purposes."""
    known = open_secrets()
    return [
        {"name": name, "for": purpose, "state": _check_secret(known, name)}
        for name, purpose in wanted.items()
    ]


def _check_secret(known: Any, name: str) -> str:
    """Return "set", "missing", or the label of the error that the secret store raised."""
    try:
        known.get(name)
    except SecretMissing:
        return "missing"
    except HoldfastError as error:
        return error_label(error)
    return "set"


def _get_now(stores: Stores) -> datetime:
    return stores.now()


_COMMAND_FUNCTIONS: Final[dict[str, Callable[..., Awaitable[Any]]]] = {
    "status": status,
    "requests list": requests_list,
    "requests show": requests_show,
    "stuck": stuck,
    "overdue": overdue,
    "metrics": metrics,
    "replay": replay,
    "sweep": sweep,
    "retain": retain,
    "providers put": providers_put,
    "providers list": providers_list,
    **payer_commands.COMMAND_FUNCTIONS,
    "holds place": holds_place,
    "holds lift": holds_lift,
    "holds list": holds_list,
    "environments": environments,
    "secrets": secrets,
}
COMMANDS: Final = {
    **{name: Command(each, component=COMPONENT) for name, each in _COMMAND_FUNCTIONS.items()},
    **CHECK_COMMANDS,
}
