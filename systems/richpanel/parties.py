"""The clients of the outside parties: the help desk and the shop, over HTTP.

Every failure says whether the effect may have happened (`PartyFailed.may_be_done`), and after which time to come again
where the party tells it: what is safe to repeat is decided above, never here. Each call is made once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import httpx2

from holdfast.errors import NotFound, PartyFailed, PartyRefused, RequestRefused
from richpanel.pacing import Pacing, TooManyRequests

KEY_HEADER: Final = "x-richpanel-key"
TIMEOUT_S: Final = 5.0
CONNECT_S: Final = 2.0
RETRY_AFTER_S_MAX: Final = 300.0
NOT_FOUND: Final = 404
GONE: Final = 410
TOO_MANY: Final = 429
SERVER_ERRORS: Final = range(500, 600)
REFUSALS: Final = range(400, 500)


@dataclass(frozen=True)
class HelpDesk:
    """What the middleware may do at the help desk. `reference` is kept with an effect and can be looked up by.

    Reads wait for their turn; a change is made at once, and who asks for it sees to the pace.
    """

    http: httpx2.AsyncClient
    pacing: Pacing = field(default_factory=lambda: Pacing(waits=False))

    async def ticket(self, ticket_id: str) -> dict[str, Any]:
        return _mapping(await self._get(_path(ticket_id)), "ticket")

    async def message(self, ticket_id: str, message_id: str) -> dict[str, Any]:
        return _mapping(await self._get(_path(ticket_id, "messages", message_id)), "message")

    async def messages(self, ticket_id: str) -> list[dict[str, Any]]:
        return _mappings(await self._get(_path(ticket_id, "messages")), "messages")

    async def reply(self, ticket_id: str, text: str, reference: str) -> dict[str, Any]:
        return await self._change(ticket_id, "messages", {"text": text, "reference": reference})

    async def note(self, ticket_id: str, text: str, reference: str) -> dict[str, Any]:
        return await self._change(ticket_id, "notes", {"text": text, "reference": reference})

    async def tag(self, ticket_id: str, tag: str, reference: str) -> dict[str, Any]:
        return await self._change(ticket_id, "tags", {"tag": tag, "reference": reference})

    async def assign(self, ticket_id: str, team: str, reference: str) -> dict[str, Any]:
        return await self._change(ticket_id, "assignee", {"team": team, "reference": reference})

    async def done(self, ticket_id: str, reference: str) -> dict[str, Any] | None:
        """What was done under a reference; None if nothing was."""
        path = f"{_path(ticket_id, 'activities')}?reference={quote(reference, safe='')}"
        found = _mappings(await self._get(path), "activities")
        return found[0] if found else None

    async def _get(self, path: str) -> Any:
        return await self.pacing.paced(lambda: _asked(self.http, "GET", path))

    async def _change(self, ticket_id: str, what: str, body: dict[str, str]) -> dict[str, Any]:
        return _mapping(
            await _asked(self.http, "POST", _path(ticket_id, what), body), "activity", changes=True
        )


@dataclass(frozen=True)
class OrderDesk:
    """What the middleware may know of the shop's orders."""

    http: httpx2.AsyncClient
    pacing: Pacing = field(default_factory=lambda: Pacing(waits=False))

    async def order(self, number: str) -> dict[str, Any] | None:
        path = f"/shop/orders/{quote(number, safe='')}"
        try:
            return _mapping(await self.pacing.paced(lambda: _asked(self.http, "GET", path)), "order")
        except NotFound:
            return None


def make_client(url: str, key: str) -> httpx2.AsyncClient:
    """One client for both; close it when done."""
    return httpx2.AsyncClient(
        base_url=url,
        headers={KEY_HEADER: key} if key else {},
        timeout=httpx2.Timeout(TIMEOUT_S, connect=CONNECT_S),
        limits=httpx2.Limits(max_connections=64, max_keepalive_connections=64),
    )


async def _asked(http: httpx2.AsyncClient, method: str, path: str, body: dict[str, str] | None = None) -> Any:
    changes = method != "GET"
    try:
        answer = await http.request(method, path, json=body)
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
        raise PartyFailed("No connection to the help desk: it was not asked.", may_be_done=False) from error
    except httpx2.HTTPError as error:
        raise PartyFailed(
            f"The help desk gave no answer ({type(error).__name__}).", may_be_done=changes
        ) from error
    return _read(answer, changes)


def _read(answer: httpx2.Response, changes: bool) -> Any:
    status = answer.status_code
    if status == TOO_MANY:
        raise TooManyRequests(
            "The help desk takes no more requests for now.",
            may_be_done=False,
            retry_after_s=_retry_after(answer),
        )
    if status in SERVER_ERRORS:
        # Whether it had begun, nobody knows: a 503 too may come from something that stands in between.
        raise PartyFailed(
            f"The help desk failed with {status}.", may_be_done=changes, retry_after_s=_retry_after(answer)
        )
    if status in REFUSALS:
        raise _refusal(status, changes)
    try:
        return answer.json()
    except (ValueError, RecursionError) as error:
        raise PartyFailed("The help desk's answer is no JSON.", may_be_done=changes) from error


def _refusal(status: int, changes: bool) -> Exception:
    """A change to what is gone is refused for good. Any other refusal of one passes once a key, a name or a right is
    mended, and whoever mends it redrives the event."""
    if status in (NOT_FOUND, GONE):
        gone = "The help desk knows no such thing: it may have been deleted."
        return PartyRefused(str(status), gone) if changes else NotFound(gone)
    refused = f"The help desk refuses the request with {status}."
    return PartyFailed(refused, may_be_done=False) if changes else RequestRefused(str(status), refused)


def _retry_after(answer: httpx2.Response) -> float | None:
    """Seconds; a date, which the header may hold as well, is left to our own pauses."""
    text = answer.headers.get("retry-after", "")
    try:
        return min(max(float(text), 0.0), RETRY_AFTER_S_MAX)
    except ValueError:
        return None


def _mapping(body: Any, name: str, *, changes: bool = False) -> dict[str, Any]:
    found = body.get(name) if isinstance(body, dict) else None
    if not isinstance(found, dict):
        raise PartyFailed(f"The help desk's answer has no {name}.", may_be_done=changes)
    return found


def _mappings(body: Any, name: str) -> list[dict[str, Any]]:
    found = body.get(name) if isinstance(body, dict) else None
    if not isinstance(found, list):
        raise PartyFailed(f"The help desk's answer has no {name}.", may_be_done=False)
    return [each for each in found if isinstance(each, dict)]


def _path(ticket_id: str, *rest: str) -> str:
    if {ticket_id, *rest} & {".", ".."}:
        raise NotFound("Dots alone are no id: in an address they would be another place.")
    return "/".join(("/v1/tickets", *(quote(part, safe="") for part in (ticket_id, *rest))))
