"""Jira search, page by page: by page token, or by `startAt` on servers without tokens.

Cloud has only the first search, Server and Data Center only the second. The client tries both to learn which
one exists. A "not found" counts only while the other search works: a proxy may answer the same for a moment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agenticpm.integrations.jira.issue_parser import JIRA, read_objects
from holdfast.core.errors import ExternalServiceFailed, NotFound, RequestError, RequestRefused
from holdfast.web.external_client import ExternalClient, read_field

# Limit for a server that always announces more pages.
MAX_PAGES: Final = 1000
MAX_RESTARTS: Final = 5
METHOD_NOT_ALLOWED: Final = "405"


@dataclass(frozen=True)
class SearchPage:
    """A page of a search. `next_token` is None for the last page.

    `answered_at` is the time of the response by Jira's clock.
    """

    issues: Sequence[dict[str, Any]]
    next_token: str | None
    answered_at: float


class JiraSearch:
    """The search endpoints of one Jira site; it remembers which of the two works."""

    def __init__(self, client: ExternalClient, api: str, page_size: int) -> None:
        self._client, self._api, self._ticket_page_size = client, api, page_size
        self._has_tokens = True

    def reset(self) -> None:
        """Forget which search endpoint exists, so that the next search tries again."""
        self._has_tokens = True

    async def iterate_pages(
        self, jql: str, fields: list[str], start_token: str | None = None
    ) -> AsyncIterator[SearchPage]:
        """Yield the pages of a query from a token on, or from the beginning.

        Raise RequestRefused (400) if Jira has forgotten the token.
        """
        ways = [(True, self._iterate_by_token), (False, self._iterate_by_offset)]
        absent: list[RequestError] = []
        for has_tokens, way in ways if self._has_tokens else reversed(ways):
            has_begun = False
            try:
                async for found in way(jql, fields, start_token):
                    has_begun, self._has_tokens = True, has_tokens
                    yield found
                return
            except (NotFound, RequestRefused) as error:
                if has_begun or not is_unsupported(error):
                    raise
                absent.append(error)
        raise absent[0]

    async def _iterate_by_token(
        self, jql: str, fields: list[str], start_token: str | None
    ) -> AsyncIterator[SearchPage]:
        """Yield the pages by token, at most `MAX_PAGES`."""
        token = start_token
        for _ in range(MAX_PAGES):
            found = await self._fetch_by_token(jql, fields, token)
            yield found
            if found.next_token is None or found.next_token == token:
                return
            token = found.next_token

    async def _fetch_by_token(self, jql: str, fields: list[str], token: str | None) -> SearchPage:
        """Fetch the page after a token, or the first page."""
        query = {"jql": jql, "fields": fields, "maxResults": self._ticket_page_size}
        query |= {} if token is None else {"nextPageToken": token}
        answer = await self._client.request("POST", f"{self._api}/search/jql", json=query, has_effect=False)
        issues = read_objects(read_field(answer.body, "issues", list, JIRA), "issues")
        next_token = None if answer.body.get("isLast") is True else answer.body.get("nextPageToken")
        if next_token is not None and not isinstance(next_token, str):
            raise ExternalServiceFailed(
                f"Invalid response from {JIRA}: expected nextPageToken as str.", may_be_done=False
            )
        return SearchPage(issues, next_token, self._client.get_response_time(answer))

    async def _iterate_by_offset(
        self, jql: str, fields: list[str], start_token: str | None
    ) -> AsyncIterator[SearchPage]:
        """Yield the pages by offset, at most `MAX_PAGES`; restart if the result shifted.

        Each page starts with the last issue of the previous page. If it is another issue, something may be
        missing, so the search restarts, up to `MAX_RESTARTS` times.
        """
        start, last = _parse_offset(start_token)
        restarts = 0
        for _ in range(MAX_PAGES):
            found = await self._fetch_by_offset(jql, fields, start)
            if last is not None and _get_first_id(found.issues[:1]) != last:
                restarts += 1
                if restarts > MAX_RESTARTS:
                    raise ExternalServiceFailed(
                        f"{JIRA} issues change faster than the search can read them.", may_be_done=False
                    )
                start, last = 0, None
                continue
            yield found
            if found.next_token is None:
                return
            following, last = _parse_offset(found.next_token)
            if following <= start:
                raise build_endless_error("the search")  # The page held only the issue already yielded.
            start = following

    async def _fetch_by_offset(self, jql: str, fields: list[str], start: int) -> SearchPage:
        # One more, for the issue that overlaps with the previous page.
        """Fetch one page; from the second on, it repeats the last issue of the previous page."""
        before, most = (start - 1, self._ticket_page_size + 1) if start else (0, self._ticket_page_size)
        query = {"jql": jql, "fields": ",".join(fields), "startAt": before, "maxResults": most}
        answer = await self._client.request("GET", f"{self._api}/search", params=query)
        issues = read_objects(read_field(answer.body, "issues", list, JIRA), "issues")
        end = before + len(issues)
        is_last = not issues or end >= read_field(answer.body, "total", int, JIRA)
        next_token = None if is_last else f"{end}:{_get_first_id(issues[-1:])}"
        return SearchPage(issues, next_token, self._client.get_response_time(answer))


def is_unsupported(error: RequestError) -> bool:
    """Return whether an error means that the endpoint does not exist: 404, 405 or 410."""
    return isinstance(error, NotFound) or getattr(error, "code", "") == METHOD_NOT_ALLOWED


def build_endless_error(what: str) -> ExternalServiceFailed:
    """Build the error for a list without an end; `what` names the list."""
    return ExternalServiceFailed(f"Invalid response from {JIRA}: {what} has no end.", may_be_done=False)


def _parse_offset(token: str | None) -> tuple[int, str | None]:
    """Return the number of issues before the page and the id of the last of them.

    Any other token means the beginning: `(0, None)`.
    """
    before, _, last = (token or "").partition(":")
    is_ours = before.isascii() and before.isdigit() and 0 < len(before) < 10 and last
    return (int(before), last) if is_ours else (0, None)


def _get_first_id(issues: Sequence[Mapping[str, Any]]) -> str | None:
    return str(issues[0].get("id")) if issues else None
