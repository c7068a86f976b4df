"""How far Jira was read: the checkpoint of its connector, an opaque text for everybody else.

JQL tells times to the minute and in the time zone of the user, and a search may see a change later than another that came
after it. So each reading begins some minutes before the last `updated` that was seen, and what was seen from there on is
kept by id and `updated`: the same is told once, and nothing between is skipped.

Within one start, reading goes on from the place that Jira gave with the page before. A search may move under such a place,
so what was read that way is looked over once more from the start, before it counts as whole. A checkpoint does not grow for
ever: where more than `SEEN_MAX` issues come in the same few minutes (an import), only the last of them are kept. Then the
places alone lead on, some issues may be told twice, and the next reading begins where Jira's clock stood, not at the last
`updated`.
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
# With the longest ids there may be (32 characters) and the place, a checkpoint stays below 64 KB.
SEEN_MAX: Final = 1000
PLACE_CHARS_MAX: Final = 4096
# In milliseconds: how far the clocks of one Jira may differ, of which one stamps issues and another answers.
CLOCKS_APART: Final = 60_000
JQL_TIME: Final = "%Y-%m-%d %H:%M"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Reading:
    """Where reading goes on. Times are milliseconds since 1970.

    `start` is where the next search begins, None for the beginning of all; `seen` is what is not told again. `since` is
    where the catching up began: changes before it were told by earlier ones; None while everything is read anew.
    `place` is where the search from `start` goes on; `is_cut` says that more was seen there than is kept.
    """

    project: str
    start: int | None = None
    last: int = 0
    since: int | None = None
    seen: Mapping[str, int] = field(default_factory=dict)
    place: str | None = None
    is_cut: bool = False

    def is_seen(self, id: str, updated: int) -> bool:
        return self.seen.get(id) == updated

    def told_after(self, id: str) -> int | None:
        """Changes of an issue before this are told; None where none is to be told."""
        return self.seen[id] + 1 if id in self.seen else self.since

    def after(
        self,
        page: Mapping[str, int],
        zone: tzinfo,
        *,
        is_last: bool,
        place: str | None = None,
        now: int | None = None,
    ) -> tuple[Reading, bool]:
        """The reading after a page of issues, by id and `updated`, in the order of the search; and whether it is whole.

        `now` is by Jira's clock: an `updated` beyond it is told, and is no time to go on from.
        """
        if not page and self.start is None:
            return self, is_last
        believed = [at for at in page.values() if now is None or at <= now + CLOCKS_APART]
        last = max(self.last, _reached(believed, is_last))
        start = self._moved(last, zone)
        seen = {**_by_time({id: at for id, at in self.seen.items() if id not in page}), **page}
        is_cut = (self.is_cut and start == self.start) or len(_from(seen, start)) > SEEN_MAX
        is_end = is_last and (self.place is None or is_cut)
        if is_end and is_cut and now is not None:
            start = self._moved(now, zone)
        kept = dict(list(_from(seen, start).items())[-SEEN_MAX:])
        is_kept = not is_last and start == self.start and len(json.dumps(place)) <= PLACE_CHARS_MAX
        after = Reading(
            self.project,
            start,
            last,
            start if is_end else self.since,
            kept,
            place if is_kept else None,
            is_cut and not is_end,
        )
        return after, is_end

    def _moved(self, last: int, zone: tzinfo) -> int:
        """Where the next search begins; never before this one."""
        start = _start(last, zone)
        return start if self.start is None else max(start, self.start)

    def text(self) -> str:
        start = self.start
        ages = {id: at - (start or 0) for id, at in self.seen.items()}
        told = {"form": FORM, "project": self.project, "start": start, "last": self.last, "since": self.since}
        way = {} if self.place is None else {"place": self.place}
        cut = {"cut": True} if self.is_cut else {}
        return json.dumps({**told, "seen": ages, **way, **cut}, sort_keys=True, separators=(",", ":"))


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
        place = told.get("place")
        place = place if isinstance(place, str) else None
        return Reading(project, start, last, since, seen, place, told.get("cut") is True)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return Reading(project)


def jql_time(start: int, zone: tzinfo) -> str:
    return moment_of(start).astimezone(zone).strftime(JQL_TIME)


def moment_of(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def milliseconds_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def _by_time(seen: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(seen.items(), key=lambda each: each[1]))


def _from(seen: Mapping[str, int], start: int) -> dict[str, int]:
    return {id: at for id, at in seen.items() if at >= start}


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
