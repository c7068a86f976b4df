"""Searching in Jira, page by page, from a place on: by token, and by `startAt` where a server has no tokens.

Cloud has the one search alone, Server and Data Center the other. Which it is, is found out by asking, and an answer that
says "not here" is believed only while the other search is there: what stands in between says that too, for a moment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agenticpm.connectors.jira_issues import JIRA, mappings
from holdfast.errors import NotFound, PartyFailed, RequestError, RequestRefused
from holdfast.web.parties import Party, member

# A server that always says that there is more is not followed for ever.
PAGES_MAX: Final = 1000
RESTARTS_MAX: Final = 5
NOT_ALLOWED: Final = "405"


@dataclass(frozen=True)
class Found:
    """A page of a search. `place` is where the next begins, None for the last; `at` is when it was told, by Jira's clock."""

    issues: Sequence[dict[str, Any]]
    place: str | None
    at: float


class JiraSearch:
    """The searches of one Jira."""

    def __init__(self, party: Party, api: str, page_tickets: int) -> None:
        self._party, self._api, self._page_tickets = party, api, page_tickets
        self._has_tokens = True

    def forget(self) -> None:
        """Which search is there is found out anew."""
        self._has_tokens = True

    async def pages(self, jql: str, fields: list[str], place: str | None = None) -> AsyncIterator[Found]:
        """Pages from a place on. A place that Jira has forgotten is refused with 400."""
        ways = [(True, self._token_pages), (False, self._offset_pages)]
        absent: list[RequestError] = []
        for has_tokens, way in ways if self._has_tokens else reversed(ways):
            has_begun = False
            try:
                async for found in way(jql, fields, place):
                    has_begun, self._has_tokens = True, has_tokens
                    yield found
                return
            except (NotFound, RequestRefused) as error:
                if has_begun or not is_absent(error):
                    raise
                absent.append(error)
        raise absent[0]

    async def _token_pages(self, jql: str, fields: list[str], place: str | None) -> AsyncIterator[Found]:
        token = place
        for _ in range(PAGES_MAX):
            found = await self._by_token(jql, fields, token)
            yield found
            if found.place is None or found.place == token:
                return
            token = found.place

    async def _by_token(self, jql: str, fields: list[str], token: str | None) -> Found:
        asked = {"jql": jql, "fields": fields, "maxResults": self._page_tickets}
        asked |= {} if token is None else {"nextPageToken": token}
        answer = await self._party.ask("POST", f"{self._api}/search/jql", json=asked, changes=False)
        issues = mappings(member(answer.body, "issues", list, JIRA), "issues")
        following = None if answer.body.get("isLast") is True else answer.body.get("nextPageToken")
        if following is not None and not isinstance(following, str):
            raise PartyFailed(f"{JIRA} answers nonsense: nextPageToken should be str.", may_be_done=False)
        return Found(issues, following, self._party.told_at(answer))

    async def _offset_pages(self, jql: str, fields: list[str], place: str | None) -> AsyncIterator[Found]:
        """Each page begins with the last issue of the one before: if it is another, the search has moved under us,
        something may have slipped through, and the search begins anew."""
        start, last = _offset_of(place)
        restarts = 0
        for _ in range(PAGES_MAX):
            found = await self._by_offset(jql, fields, start)
            if last is not None and _id(found.issues[:1]) != last:
                restarts += 1
                if restarts > RESTARTS_MAX:
                    raise PartyFailed(f"{JIRA} changes faster than it can be read.", may_be_done=False)
                start, last = 0, None
                continue
            yield found
            if found.place is None:
                return
            following, last = _offset_of(found.place)
            if following <= start:
                raise endless("the search")  # Pages of one issue, which was told before.
            start = following

    async def _by_offset(self, jql: str, fields: list[str], start: int) -> Found:
        # With room for the issue that is told twice.
        before, most = (start - 1, self._page_tickets + 1) if start else (0, self._page_tickets)
        asked = {"jql": jql, "fields": ",".join(fields), "startAt": before, "maxResults": most}
        answer = await self._party.ask("GET", f"{self._api}/search", params=asked)
        issues = mappings(member(answer.body, "issues", list, JIRA), "issues")
        end = before + len(issues)
        is_last = not issues or end >= member(answer.body, "total", int, JIRA)
        place = None if is_last else f"{end}:{_id(issues[-1:])}"
        return Found(issues, place, self._party.told_at(answer))


def is_absent(error: RequestError) -> bool:
    """Whether an answer says that there is no such thing to ask: 404, 405 or 410."""
    return isinstance(error, NotFound) or getattr(error, "code", "") == NOT_ALLOWED


def endless(what: str) -> PartyFailed:
    return PartyFailed(f"{JIRA} answers nonsense: {what} has no end.", may_be_done=False)


def _offset_of(place: str | None) -> tuple[int, str | None]:
    """How many come before, and the last of them; one that is no place of this search is its beginning."""
    before, _, last = (place or "").partition(":")
    is_ours = before.isascii() and before.isdigit() and 0 < len(before) < 10 and last
    return (int(before), last) if is_ours else (0, None)


def _id(issues: Sequence[Mapping[str, Any]]) -> str | None:
    return str(issues[0].get("id")) if issues else None
