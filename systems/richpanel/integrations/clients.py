"""HTTP clients of the external services: the help desk and the shop.

Every failure says whether the effect may have happened (`ExternalServiceFailed.may_be_done`) and when to
retry, if the service says so. Each call is made once: callers decide what is safe to repeat.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import httpx2

from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, NotFound, RequestRefused
from holdfast.core.http.headers import parse_retry_after
from richpanel.integrations.rate_limits import CallPacer, TooManyRequests

KEY_HEADER: Final = "x-richpanel-key"
TIMEOUT_S: Final = 5.0
CONNECT_S: Final = 2.0
MAX_RETRY_AFTER_S: Final = 300.0
NOT_FOUND: Final = 404
GONE: Final = 410
TOO_MANY: Final = 429
SERVER_ERRORS: Final = range(500, 600)
REFUSALS: Final = range(400, 500)


@dataclass(frozen=True)
class HelpDeskClient:
    """The help desk's API. The help desk stores `reference` with an effect, and `find_activity` looks it up.

    Reads wait for their turn. A change is sent at once: its caller must pace it.
    """

    http: httpx2.AsyncClient
    pacer: CallPacer = field(default_factory=lambda: CallPacer(should_wait=False))

    async def get_ticket(self, ticket_id: str) -> dict[str, Any]:
        """Return a ticket. Raise `NotFound` if it does not exist."""
        return _get_object(await self._get(_build_path(ticket_id)), "ticket")

    async def get_message(self, ticket_id: str, message_id: str) -> dict[str, Any]:
        """Return a message of a ticket. Raise `NotFound` if it does not exist."""
        return _get_object(await self._get(_build_path(ticket_id, "messages", message_id)), "message")

    async def list_messages(self, ticket_id: str) -> list[dict[str, Any]]:
        """Return all messages of a ticket. Raise `NotFound` if the ticket does not exist."""
        return _get_objects(await self._get(_build_path(ticket_id, "messages")), "messages")

    async def reply(self, ticket_id: str, text: str, reference: str) -> dict[str, Any]:
        """Send a message to the customer."""
        return await self._change(ticket_id, "messages", {"text": text, "reference": reference})

    async def add_note(self, ticket_id: str, text: str, reference: str) -> dict[str, Any]:
        """Add a note that only agents see."""
        return await self._change(ticket_id, "notes", {"text": text, "reference": reference})

    async def add_tag(self, ticket_id: str, tag: str, reference: str) -> dict[str, Any]:
        """Add a tag to the ticket."""
        return await self._change(ticket_id, "tags", {"tag": tag, "reference": reference})

    async def assign(self, ticket_id: str, team: str, reference: str) -> dict[str, Any]:
        """Assign the ticket to a team."""
        return await self._change(ticket_id, "assignee", {"team": team, "reference": reference})

    async def find_activity(self, ticket_id: str, reference: str) -> dict[str, Any] | None:
        """Return the activity with a reference, or None."""
        path = f"{_build_path(ticket_id, 'activities')}?reference={quote(reference, safe='')}"
        found = _get_objects(await self._get(path), "activities")
        return found[0] if found else None

    async def _get(self, path: str) -> Any:
        """GET a path when the pacer allows it. Return the parsed body."""
        return await self.pacer.call(lambda: _request(self.http, "GET", path))

    async def _change(self, ticket_id: str, what: str, body: dict[str, str]) -> dict[str, Any]:
        """POST a change to a ticket at the sub-path `what`, without pacing. Return the new activity."""
        return _get_object(
            await _request(self.http, "POST", _build_path(ticket_id, what), body), "activity", has_effect=True
        )


@dataclass(frozen=True)
class ShopClient:
    """The shop's API for orders."""

    http: httpx2.AsyncClient
    pacer: CallPacer = field(default_factory=lambda: CallPacer(should_wait=False))

    async def get_order(self, number: str) -> dict[str, Any] | None:
        """Return an order, or None if the shop does not have it."""
        path = f"/shop/orders/{quote(number, safe='')}"
        try:
            return _get_object(await self.pacer.call(lambda: _request(self.http, "GET", path)), "order")
        except NotFound:
            return None


def make_client(url: str, key: str) -> httpx2.AsyncClient:
    """Open the HTTP client that both services share. `key` is the API key, empty for none. The caller closes
    it.
    """
    return httpx2.AsyncClient(
        base_url=url,
        headers={KEY_HEADER: key} if key else {},
        timeout=httpx2.Timeout(TIMEOUT_S, connect=CONNECT_S),
        limits=httpx2.Limits(max_connections=64, max_keepalive_connections=64),
    )


async def _request(
    http: httpx2.AsyncClient, method: str, path: str, body: dict[str, str] | None = None
) -> Any:
    """Make one HTTP request and return the parsed body. Raise the error of a failure or a refusal, with
    `may_be_done` false for GET.
    """
    has_effect = method != "GET"
    try:
        response = await http.request(method, path, json=body)
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
        raise ExternalServiceFailed(
            "No connection to the help desk. The request was not sent.", may_be_done=False
        ) from error
    except httpx2.HTTPError as error:
        raise ExternalServiceFailed(
            f"The help desk did not respond ({type(error).__name__}).", may_be_done=has_effect
        ) from error
    return _parse_response(response, has_effect)


def _parse_response(response: httpx2.Response, has_effect: bool) -> Any:
    """Return the JSON of a response, or raise the error of its status."""
    status = response.status_code
    if status == TOO_MANY:
        raise TooManyRequests(
            "The help desk's rate limit is reached.",
            may_be_done=False,
            retry_after_s=_parse_retry_after(response),
        )
    if status in SERVER_ERRORS:
        # The effect is unknown: even a 503 may come from a proxy after the call was forwarded.
        raise ExternalServiceFailed(
            f"The help desk failed with {status}.",
            may_be_done=has_effect,
            retry_after_s=_parse_retry_after(response),
        )
    if status in REFUSALS:
        raise _build_refusal(status, has_effect)
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        raise ExternalServiceFailed(
            "Invalid help desk response: expected JSON.", may_be_done=has_effect
        ) from error


def _build_refusal(status: int, has_effect: bool) -> Exception:
    """Build the error of a 4xx response.

    A change to something that does not exist is refused permanently. Any other refused change may succeed
    after an operator fixes a key, a name or a permission and redrives the event.
    """
    if status in (NOT_FOUND, GONE):
        gone = "The help desk has no such object: it may have been deleted."
        return ExternalServiceRefused(str(status), gone) if has_effect else NotFound(gone)
    refused = f"The help desk refused the request with {status}."
    return (
        ExternalServiceFailed(refused, may_be_done=False)
        if has_effect
        else RequestRefused(str(status), refused)
    )


def _parse_retry_after(response: httpx2.Response) -> float | None:
    """Return the pause that the help desk asks for; None for a date or no header: the caller then uses its
    own.
    """
    return parse_retry_after(response.headers.get("retry-after", ""), max_s=MAX_RETRY_AFTER_S)


def _get_object(body: Any, name: str, *, has_effect: bool = False) -> dict[str, Any]:
    """Return the object `name` of a response body. Raise `ExternalServiceFailed` if there is none."""
    found = body.get(name) if isinstance(body, dict) else None
    if not isinstance(found, dict):
        raise ExternalServiceFailed(f"Invalid help desk response: expected {name}.", may_be_done=has_effect)
    return found


def _get_objects(body: Any, name: str) -> list[dict[str, Any]]:
    """Return the list `name` of a response body, without entries that are not objects. Raise
    `ExternalServiceFailed` if there is none.
    """
    found = body.get(name) if isinstance(body, dict) else None
    if not isinstance(found, list):
        raise ExternalServiceFailed(f"Invalid help desk response: expected {name}.", may_be_done=False)
    return [each for each in found if isinstance(each, dict)]


def _build_path(ticket_id: str, *rest: str) -> str:
    """Build the path of a ticket. Raise `NotFound` for an id of dots, which would change the path."""
    if {ticket_id, *rest} & {".", ".."}:
        raise NotFound("Invalid id: it consists of dots, which would change the path.")
    return "/".join(("/v1/tickets", *(quote(part, safe="") for part in (ticket_id, *rest))))
