"""What operators do on the command line: `holdfast pagw status`, `holdfast pagw replay PAGW-…`, and so on.

Each takes the stores of the component `operator` and what was typed. They show pointers: ids, states, times; what is in a
request is for its client to read, whose reads are audited. Dead letters are `holdfast queues redrive`, dead announcements
`holdfast outbox redrive`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from holdfast import Command, Explanation, Listing, Page, Stores, open_secrets
from holdfast.errors import HoldfastError, InvalidRequest, SecretMissing, error_label
from pagw import explaining, holds, monitoring, registering, replaying, retaining, sweeping, tools
from pagw.auditing import Actor
from pagw.environments import ENVIRONMENTS, audit_bucket, request_bucket
from pagw.findable import KEY
from pagw.model import PayerRow, Provider
from pagw.settings import PagwSettings
from pagw.statuses import Status
from pagw.yearly_report import lines_of, plain, yearly_report

COMPONENT: Final = "operator"
LISTED: Final = 50

RequestArg = Annotated[str, "The id of the request: PAGW-…"]
ByArg = Annotated[str, "Who says so, for the audit"]
LimitArg = Annotated[int, "The most to show"]

REQUEST: Final = ("pagw_id", "tenant", "status", "stage", "payer_id", "decision", "created_at")


# --- how it stands ---------------------------------------------------------------------------------------------------


async def status(stores: Stores) -> Any:
    """How the gateway stands: requests by status, the outbox, times, what is stuck and overdue."""
    found = await monitoring.standing(stores, minutes := PagwSettings.load().stuck_minutes)
    return Explanation(monitoring.lines_of(found, minutes), found)


async def requests_list(
    stores: Stores,
    tenant: Annotated[str | None, "Only of this tenant"] = None,
    status: Annotated[Status | None, "Only with this status"] = None,
    limit: LimitArg = LISTED,
) -> Any:
    """The newest requests."""
    found = await stores.run(monitoring.newest(tenant, status, limit))
    return Listing(Page(tuple(explaining.pointers(each) for each in found)), REQUEST)


async def requests_show(stores: Stores, request: RequestArg) -> Any:
    """A request as it stands; `holdfast why pagw` tells its whole trail."""
    return explaining.pointers(await explaining.known(stores, request))


async def stuck(
    stores: Stores,
    minutes: Annotated[int | None, "From when it is stuck; left out, PAGW_STUCK_MINUTES"] = None,
    limit: LimitArg = LISTED,
) -> Any:
    """Requests that should move and do not, longest first."""
    since = PagwSettings.load().stuck_minutes if minutes is None else minutes
    now = _now(stores)
    found = await stores.run(monitoring.stuck_since(now - timedelta(minutes=since), limit))
    return [tools.waits(each, now) for each in found]


async def overdue(
    stores: Stores,
    hours: Annotated[int, "Also what is due within so many hours"] = 24,
    limit: LimitArg = LISTED,
) -> Any:
    """Requests without a decision that are late or due soon: 72 hours expedited, 7 days standard."""
    now = _now(stores)
    found = await stores.run(monitoring.due_before(now + timedelta(hours=hours), limit))
    return [tools.due(each, now) for each in found]


async def metrics(
    stores: Stores,
    year: Annotated[int | None, "Which year; left out, the last that is over"] = None,
    payer: Annotated[str | None, "Only of this payer"] = None,
) -> Any:
    """The yearly report of CMS-0057-F: approved and denied, standard and expedited apart, and how long it took."""
    this_year = _now(stores).year
    report = await yearly_report(stores, this_year - 1 if year is None else year, payer)
    lines = lines_of(report)
    if year is None:
        lines.append(
            f"This was {report.year}, the last year that is over; `--year {this_year}` reports this one so far."
        )
    return Explanation(lines, plain(report))


# --- bringing on ------------------------------------------------------------------------------------------------------


async def replay(stores: Stores, request: RequestArg, by: ByArg = COMPONENT) -> Any:
    """Tell the stage that has a request once more; a failed one goes on from where it failed."""
    await explaining.known(stores, request)
    stage = await replaying.replay(stores, request, Actor("user", by))
    return f"{request} is with {stage.service} again."


async def sweep(
    stores: Stores, months: Annotated[int, "How many months, this one included"] = sweeping.MONTHS
) -> Any:
    """Remove files that no row points at, older than three days."""
    swept = await sweeping.sweep(stores, months)
    sent, taken = await sweeping.sweep_messages(stores)
    return {"files": swept.files, "requests": swept.requests, "outbox_rows": sent, "inbox_rows": taken}


async def retain(
    stores: Stores,
    dry_run: Annotated[bool, "Only count"] = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Any:
    """Remove what has outlived its retention (PAGW_RETENTION_YEARS); what is under a legal hold stays."""
    return await retaining.retain(stores, PagwSettings.load(), dry_run=dry_run, progress=progress)


# --- registries -------------------------------------------------------------------------------------------------------


async def providers_put(
    stores: Stores,
    npi: Annotated[str, "Its National Provider Identifier: ten digits"],
    name: Annotated[str, "What it is called"],
    type: Annotated[str | None, "What kind it is"] = None,
    endpoints: Annotated[dict[str, Any] | None, "Its addresses, as a JSON object"] = None,
    credentials: Annotated[str | None, "The name or ARN of its secret"] = None,
    by: ByArg = COMPONENT,
) -> Any:
    """Register a provider, or change it."""
    row = Provider(npi=npi, name=name, type=type, endpoints=endpoints or {}, credentials_arn=credentials)
    return await registering.register_provider(stores, row, Actor("user", by))


async def providers_list(stores: Stores, after: Annotated[str, "Only behind this NPI"] = "") -> Any:
    """The providers that are registered."""
    found = await stores.run(registering.providers(after))
    return Listing(Page(tuple(each.model_dump(mode="json") for each in found)), ("npi", "name", "type"))


async def payers_put(
    stores: Stores,
    payer: Annotated[str, "Its id"],
    name: Annotated[str, "What it is called"],
    endpoint: Annotated[str, "Where it is asked: an HTTPS address"],
    credentials: Annotated[str | None, "The name or ARN of the secret"] = None,
    options: Annotated[
        dict[str, Any] | None,
        "auth_type, format, client_id, callback_secret, token_url, scope, answer_s, as a JSON object",
    ] = None,
    by: ByArg = COMPONENT,
) -> Any:
    """Register a payer, or change it."""
    given: dict[str, Any] = {
        "auth_type": "oauth2",
        "format": "json",
        "client_id": None,
        "callback_secret": None,
    }
    given |= {"token_url": None, "scope": None, "answer_s": None}
    if strange := sorted(set(options or {}) - set(given)):
        raise InvalidRequest(f"A payer has no {', '.join(strange)}: it has {', '.join(given)}.")
    row = PayerRow.model_validate(
        {"payer_id": payer, "name": name, "api_endpoint": endpoint, "credentials_arn": credentials}
        | given
        | (options or {})
    )
    return await registering.register_payer(stores, row, Actor("user", by))


async def payers_list(stores: Stores) -> Any:
    """The payers that are registered."""
    found = await stores.run(registering.payers())
    columns = ("payer_id", "name", "api_endpoint", "auth_type", "format")
    return Listing(Page(tuple(each.model_dump(mode="json") for each in found)), columns)


# --- legal holds ------------------------------------------------------------------------------------------------------


async def holds_place(
    stores: Stores,
    request: RequestArg,
    reason: Annotated[str, "Why, such as the number of the case"],
    by: ByArg = COMPONENT,
) -> Any:
    """Keep a request beyond its retention, with all its files."""
    await explaining.known(stores, request)
    held = await holds.place(stores, request, reason, Actor("user", by))
    return f"{request} is under a legal hold, with {held} files."


async def holds_lift(stores: Stores, request: RequestArg, by: ByArg = COMPONENT) -> Any:
    """Let a request go again."""
    freed = await holds.lift(stores, request, Actor("user", by))
    return f"{request} is under no legal hold any more, nor are its {freed} files."


async def holds_list(stores: Stores) -> Any:
    """The requests under a legal hold."""
    return [each.model_dump(mode="json") for each in await stores.run(holds.holds())]


# --- what there is to set up ------------------------------------------------------------------------------------------


async def environments(stores: Stores) -> Any:
    """The environments: region, table, database, buckets."""
    return [
        {
            "environment": each.name,
            "region": each.region,
            "table": each.idempotency_table,
            "database": each.database,
            "requests": request_bucket(each.name),
            "audit": audit_bucket(each.name),
        }
        for each in ENVIRONMENTS.values()
    ]


async def secrets(
    stores: Stores,
    tenants: Annotated[str, "Tenants whose webhooks are signed, with commas between them"] = "",
) -> Any:
    """The names of the secrets that the gateway needs, and whether each is set. Never what is in them."""
    wanted = {KEY: "hashes by which members and claims are found; never rotated"}
    for payer in await stores.run(registering.payers()):
        wanted |= registering.secrets_of(payer)
    for tenant in filter(None, (each.strip() for each in tenants.split(","))):
        wanted[f"pagw/webhooks/{tenant}"] = f"signature of webhooks to {tenant}"
    return await asyncio.to_thread(_states, wanted)


def _states(wanted: dict[str, str]) -> list[dict[str, str]]:
    known = open_secrets()
    return [{"name": name, "for": purpose, "state": _state(known, name)} for name, purpose in wanted.items()]


def _state(known: Any, name: str) -> str:
    try:
        known.get(name)
    except SecretMissing:
        return "missing"
    except HoldfastError as error:
        return error_label(error)
    return "set"


def _now(stores: Stores) -> datetime:
    return datetime.fromtimestamp(stores.clock.now(), UTC)


_FUNCTIONS: Final[dict[str, Callable[..., Awaitable[Any]]]] = {
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
    "payers put": payers_put,
    "payers list": payers_list,
    "holds place": holds_place,
    "holds lift": holds_lift,
    "holds list": holds_list,
    "environments": environments,
    "secrets": secrets,
}
COMMANDS: Final = {name: Command(each, component=COMPONENT) for name, each in _FUNCTIONS.items()}
