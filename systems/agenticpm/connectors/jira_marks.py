"""How far Jira was read: the checkpoint of its connector, an opaque text for everybody else.

JQL tells times to the minute and in the time zone of the user, and a search may see a change later than another that came
after it. So each reading begins some minutes before the last `updated` that was seen, and what was seen from there on is
kept by id and `updated`: the same is told once, and nothing between is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

FORM: Final = 1
# How much later than its neighbours a change may come into view.
OVERLAP: Final = timedelta(minutes=2)
JQL_TIME: Final = "%Y-%m-%d %H:%M"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Reading:
    """Where reading goes on. Times are milliseconds since 1970.

    `start` is where the next search begins, None for the beginning of all; `seen` is what is not told again. `since` is
    where the catching up began: changes before it were told by earlier ones; None while everything is read anew.
    """

    project: str
    start: int | None = None
    last: int = 0
    since: int | None = None
    seen: Mapping[str, int] = field(default_factory=dict)

    def is_seen(self, id: str, updated: int) -> bool:
        return self.seen.get(id) == updated

    def told_after(self, id: str) -> int | None:
        """Changes of an issue before this are told; None where none is to be told."""
        return self.seen[id] + 1 if id in self.seen else self.since

    def after(self, page: Mapping[str, int], zone: tzinfo, *, is_last: bool) -> Reading:
        """The reading after a page of issues, by id and `updated`, in the order of the search."""
        if not page and self.start is None:
            return self
        last = max(self.last, _reached(list(page.values()), is_last))
        start = _start(last, zone)
        seen = {id: at for id, at in {**self.seen, **page}.items() if at >= start}
        return Reading(self.project, start, last, start if is_last else self.since, seen)

    def text(self) -> str:
        start = self.start
        ages = {id: at - (start or 0) for id, at in self.seen.items()}
        told = {"form": FORM, "project": self.project, "start": start, "last": self.last, "since": self.since}
        return json.dumps({**told, "seen": ages}, sort_keys=True, separators=(",", ":"))


def reading_of(project: str, checkpoint: str | None) -> Reading:
    """What a checkpoint says. One that cannot be read, or is of another project, is none: everything is read anew."""
    try:
        told = json.loads(checkpoint or "")
        if (told["form"], told["project"]) != (FORM, project):
            return Reading(project)
        start, last, since = told["start"], told["last"], told["since"]
        if not (_is_time(start) and _is_time(since) and isinstance(last, int)):
            return Reading(project)
        seen = {str(id): (start or 0) + int(age) for id, age in told["seen"].items()}
        return Reading(project, start, last, since, seen)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Reading(project)


def jql_time(start: int, zone: tzinfo) -> str:
    return moment_of(start).astimezone(zone).strftime(JQL_TIME)


def moment_of(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def milliseconds_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def _reached(updates: list[int], is_last: bool) -> int:
    """How far a page reaches. An issue that changes while it is read may tell a time far beyond its place in the search:
    where more follows, one alone is not believed."""
    if is_last:
        return max(updates, default=0)
    return min(updates[-2:]) if len(updates) > 1 else 0


def _start(last: int, zone: tzinfo) -> int:
    """A full minute that is one moment in the zone: where clocks are put back, an hour is two, and Jira cannot tell."""
    at = (moment_of(last) - OVERLAP).replace(second=0, microsecond=0)
    while _is_twice(at.astimezone(zone)):
        at -= timedelta(hours=1)
    return milliseconds_of(at)


def _is_twice(local: datetime) -> bool:
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()


def _is_time(value: Any) -> bool:
    return value is None or isinstance(value, int)
