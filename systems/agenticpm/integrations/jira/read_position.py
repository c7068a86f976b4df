"""The Jira read position: how far a project was read, as a checkpoint that only the client understands.

JQL compares times to the minute in the user's time zone, and a search may show a change later than a newer
one. So each read starts some minutes before the last `updated` seen, and the issues seen from there on are
kept by id and `updated`: each change is reported once, and none is skipped.

Within one start, reading resumes from the page token of the previous page. A search may shift under a token,
so the result is checked again from the start before the read counts as complete. The checkpoint has a size
limit: if more than `MAX_SEEN` issues change within the same few minutes (an import), only the last of them
are kept. Then only page tokens make progress, some issues may be reported twice, and the next read starts at
Jira's current time instead of the last `updated`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

FORMAT_VERSION: Final = 1
# How much later than its neighbours a change may appear in a search.
OVERLAP: Final = timedelta(minutes=2)
# With the longest ids (32 characters) and the page token, a checkpoint stays below 64 KB.
MAX_SEEN: Final = 1000
MAX_TOKEN_CHARS: Final = 4096
# Milliseconds by which the clocks of one Jira site may differ: one stamps issues, another responses.
CLOCK_SKEW_MS: Final = 60_000
JQL_TIME_FORMAT: Final = "%Y-%m-%d %H:%M"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ReadPosition:
    """The position from which reading resumes. Times are milliseconds since 1970.

    `start` is where the next search begins, None for a full read. `seen` holds the issues not to report
    again. `since` is where the current catch-up began: earlier changes were reported before it; None during a
    full read. `page_token` resumes the search from `start`. `is_truncated` means that more issues were seen
    than are kept.
    """

    project: str
    start: int | None = None
    last: int = 0
    since: int | None = None
    seen: Mapping[str, int] = field(default_factory=dict)
    page_token: str | None = None
    is_truncated: bool = False

    def is_seen(self, id: str, updated: int) -> bool:
        """Return whether this state of the issue was already reported."""
        return self.seen.get(id) == updated

    def get_changes_start(self, id: str) -> int | None:
        """Return the time from which changes of an issue are new; None if none is to be reported."""
        return self.seen[id] + 1 if id in self.seen else self.since

    def advance(
        self,
        page: Mapping[str, int],
        zone: tzinfo,
        *,
        is_last: bool,
        page_token: str | None = None,
        now: int | None = None,
    ) -> tuple[ReadPosition, bool]:
        """Return the position after a page of issues, and whether the read is complete.

        `page` has the `updated` of each issue by id, in search order. `now` is Jira's time: an issue with a
        later `updated` is reported, but does not advance the start.
        """
        if not page and self.start is None:
            return self, is_last
        believed = [at for at in page.values() if now is None or at <= now + CLOCK_SKEW_MS]
        last = max(self.last, _compute_reached(believed, is_last))
        start = self._compute_start(last, zone)
        seen = {**_sort_by_time({id: at for id, at in self.seen.items() if id not in page}), **page}
        is_cut = (self.is_truncated and start == self.start) or len(_select_since(seen, start)) > MAX_SEEN
        is_end = is_last and (self.page_token is None or is_cut)
        if is_end and is_cut and now is not None:
            start = self._compute_start(now, zone)
        kept = dict(list(_select_since(seen, start).items())[-MAX_SEEN:])
        is_kept = not is_last and start == self.start and len(json.dumps(page_token)) <= MAX_TOKEN_CHARS
        after = ReadPosition(
            self.project,
            start,
            last,
            start if is_end else self.since,
            kept,
            page_token if is_kept else None,
            is_cut and not is_end,
        )
        return after, is_end

    def _compute_start(self, last: int, zone: tzinfo) -> int:
        """Return where the next search begins, never before the current start."""
        start = _compute_search_start(last, zone)
        return start if self.start is None else max(start, self.start)

    def to_text(self) -> str:
        """Return the position as the text of a checkpoint."""
        start = self.start
        ages = {id: at - (start or 0) for id, at in self.seen.items()}
        values = {
            "form": FORMAT_VERSION,
            "project": self.project,
            "start": start,
            "last": self.last,
            "since": self.since,
        }
        token = {} if self.page_token is None else {"place": self.page_token}
        cut = {"cut": True} if self.is_truncated else {}
        return json.dumps({**values, "seen": ages, **token, **cut}, sort_keys=True, separators=(",", ":"))


def parse_position(project: str, checkpoint: str | None) -> ReadPosition:
    """Parse a checkpoint. None, an invalid one, or one of another project starts a full read."""
    try:
        values = json.loads(checkpoint or "")
        if (values["form"], values["project"]) != (FORMAT_VERSION, project):
            return ReadPosition(project)
        start, last, since = values["start"], values["last"], values["since"]
        if not (_is_time(start) and _is_time(since) and isinstance(last, int)):
            return ReadPosition(project)
        seen = {str(id): (start or 0) + int(age) for id, age in values["seen"].items()}
        place = values.get("place")
        place = place if isinstance(place, str) else None
        return ReadPosition(project, start, last, since, seen, place, values.get("cut") is True)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return ReadPosition(project)


def format_jql_time(start: int, zone: tzinfo) -> str:
    """Format milliseconds as a minute in the user's time zone, for JQL."""
    return from_milliseconds(start).astimezone(zone).strftime(JQL_TIME_FORMAT)


def from_milliseconds(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def to_milliseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def _sort_by_time(seen: Mapping[str, int]) -> dict[str, int]:
    """Return the issues in the order of their `updated`."""
    return dict(sorted(seen.items(), key=lambda each: each[1]))


def _select_since(seen: Mapping[str, int], start: int) -> dict[str, int]:
    """Return the issues updated at or after `start`."""
    return {id: at for id, at in seen.items() if at >= start}


def _compute_reached(updates: list[int], is_last: bool) -> int:
    """Return how far a page reaches, in milliseconds.

    An issue that changes during the read may have an `updated` far beyond its position, so unless the page is
    the last, the highest time alone is not used.
    """
    if is_last:
        return max(updates, default=0)
    return min(updates[-2:]) if len(updates) > 1 else 0


def _compute_search_start(last: int, zone: tzinfo) -> int:
    """Return a full minute, at least two before `last`, that is unambiguous in the zone.

    When clocks go back, an hour occurs twice and JQL does not distinguish them.
    """
    at = (from_milliseconds(last) - OVERLAP).replace(second=0, microsecond=0)
    while _is_ambiguous(at.astimezone(zone)):
        at -= timedelta(hours=1)
    return to_milliseconds(at)


def _is_ambiguous(local: datetime) -> bool:
    """Return whether the local time occurs twice, because clocks go back."""
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()


def _is_time(value: Any) -> bool:
    """Return whether the value is None or milliseconds."""
    return value is None or isinstance(value, int)
