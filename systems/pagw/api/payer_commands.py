"""Operators' commands about payers: `holdfast pagw payers add`, `payers test`, `payers sample`, and so on.

They only read arguments and show what `ops.payers` and `ops.registry` return. `payers add` refuses a payer
that exists; `payers put` replaces it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final

from holdfast import Page, Stores
from holdfast.core.errors import AlreadyExists, InvalidRequest
from holdfast.model.system import Explanation, Listing
from holdfast.runtime import open_secrets
from pagw.integrations.payers.config import OPTIONS, AuthType, FormatName
from pagw.integrations.payers.http_clients import open_http_clients
from pagw.model import patterns
from pagw.model.audit import Actor
from pagw.model.entities import PayerRow
from pagw.ops import registry
from pagw.ops.payers import Payers, describe_health, describe_payer, load_payer
from pagw.settings import PagwSettings

COMPONENT: Final = "operator"
MAX_SAMPLE_BYTES: Final = 25_000_000
# The columns that `payers put` takes as options, with their defaults.
COLUMNS: Final[dict[str, Any]] = {
    "auth_type": AuthType.oauth2,
    "format": FormatName.json,
    "client_id": None,
    "callback_secret": None,
    "token_url": None,
    "scope": None,
    "answer_s": None,
}

PayerArg = Annotated[str, "The payer's id"]
NameArg = Annotated[str, "The display name"]
EndpointArg = Annotated[str, "The payer's API: an HTTPS address; for PAS, the base of its FHIR endpoints"]
CredentialsArg = Annotated[
    str | None, "The name or ARN of the secret: a client secret, an API key or a private key"
]
OptionsArg = Annotated[dict[str, Any] | None, f"{', '.join([*COLUMNS, *sorted(OPTIONS)])}, as a JSON object"]
ByArg = Annotated[str, "Your name, for the audit log"]


async def payers_put(
    stores: Stores,
    payer: PayerArg,
    name: NameArg,
    endpoint: EndpointArg,
    credentials: CredentialsArg = None,
    options: OptionsArg = None,
    by: ByArg = COMPONENT,
) -> Any:
    """Register or update a payer."""
    row = _build_row(payer, name, endpoint, credentials, options or {})
    return await registry.register_payer(stores, row, Actor("user", by))


async def payers_add(
    stores: Stores,
    payer: PayerArg,
    name: NameArg,
    endpoint: EndpointArg,
    format: Annotated[FormatName, "The payer's message format"] = FormatName.fhir_pas,
    auth: Annotated[AuthType, "The gateway's authentication at the payer"] = AuthType.oauth2,
    credentials: CredentialsArg = None,
    options: OptionsArg = None,
    by: ByArg = COMPONENT,
) -> Any:
    """Add a payer and test the connection to it; an existing payer is refused."""
    if await stores.run(patterns.payer(payer)) is not None:
        raise AlreadyExists(f"The payer {payer} exists. Change it with `holdfast pagw payers put`.")
    given = {"format": format, "auth_type": auth, **(options or {})}
    row = _build_row(payer, name, endpoint, credentials, given)
    await registry.register_payer(stores, row, Actor("user", by))
    return await payers_test(stores, payer, by)


async def payers_test(stores: Stores, payer: PayerArg, by: ByArg = COMPONENT) -> Any:
    """Test a payer's configuration, secrets, credentials and connection, without submitting anything."""
    async with _open_payers(stores) as payers:
        found = await payers.test_connection(payer, Actor("user", by))
    lines = [f"{'ok    ' if each.ok else 'failed'}  {each.step}: {each.detail}" for each in found]
    steps = [{"step": each.step, "ok": each.ok, "detail": each.detail} for each in found]
    return Explanation(lines, {"payer": payer, "ok": found[-1].ok, "steps": steps})


async def payers_sample(
    stores: Stores,
    payer: PayerArg,
    file: Annotated[str, "A PAS request Bundle of a member that the payer knows as test data"],
    by: ByArg = COMPONENT,
) -> Any:
    """Submit a Bundle to a payer as a sample, look it up, and show its decision. The payer acts on it."""
    body = await asyncio.to_thread(_read_sample, Path(file))
    async with _open_payers(stores) as payers:
        return await payers.send_sample(payer, body, Actor("user", by))


async def payers_subscribe(
    stores: Stores,
    payer: PayerArg,
    organization: Annotated[str, "The identifier of the organization whose decisions to receive"],
    by: ByArg = COMPONENT,
) -> Any:
    """Subscribe the gateway to the decisions of a payer that speaks PAS."""
    url = PagwSettings.load().public_url
    async with _open_payers(stores) as payers:
        return await payers.subscribe(payer, organization, url, Actor("user", by))


async def payers_show(stores: Stores, payer: PayerArg) -> Any:
    """Show a payer's configuration with its limits and clocks, its secrets' names, and its requests."""
    row = await load_payer(stores, payer)
    return {
        **describe_payer(row),
        "secrets": registry.get_required_secrets(row),
        "requests": await describe_health(stores, payer),
    }


async def payers_list(stores: Stores) -> Any:
    """List the registered payers."""
    found = await stores.run(registry.payers())
    columns = ("payer_id", "name", "api_endpoint", "auth_type", "format")
    return Listing(Page(tuple(each.model_dump(mode="json") for each in found)), columns)


@asynccontextmanager
async def _open_payers(stores: Stores) -> AsyncIterator[Payers]:
    """Open the functions about payers with their own HTTP clients."""
    async with open_http_clients() as clients:
        yield Payers(stores, clients, open_secrets())


def _build_row(
    payer: str, name: str, endpoint: str, credentials: str | None, options: dict[str, Any]
) -> PayerRow:
    """Build a payer's row. Raise `InvalidRequest` for an unknown option."""
    known = {*COLUMNS, *OPTIONS}
    if unknown := sorted(set(options) - known):
        names = ", ".join(sorted(known))
        raise InvalidRequest(f"Unknown payer options {', '.join(unknown)}: expected {names}.")
    columns = {name: value for name, value in options.items() if name in COLUMNS}
    others = {name: value for name, value in options.items() if name in OPTIONS and value is not None}
    fixed = {"payer_id": payer, "name": name, "api_endpoint": endpoint, "credentials_arn": credentials}
    return PayerRow.model_validate({**COLUMNS, **columns, **fixed, "options": others})


def _read_sample(file: Path) -> bytes:
    """Read a Bundle. Raise `InvalidRequest` if the file cannot be read or is too large."""
    try:
        with file.open("rb") as opened:
            body = opened.read(MAX_SAMPLE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or "unknown error"
        raise InvalidRequest(
            f"Cannot read {file}: {reason}. Name a file with a PAS request Bundle."
        ) from error
    if len(body) > MAX_SAMPLE_BYTES:
        raise InvalidRequest(f"{file} is larger than {MAX_SAMPLE_BYTES} bytes.")
    return body


COMMAND_FUNCTIONS: Final[dict[str, Callable[..., Awaitable[Any]]]] = {
    "payers add": payers_add,
    "payers put": payers_put,
    "payers test": payers_test,
    "payers sample": payers_sample,
    "payers subscribe": payers_subscribe,
    "payers show": payers_show,
    "payers list": payers_list,
}
