"""How much AgenticPM has to bear, and what its document says that costs beside what it comes to.

`load_of` makes a load of the number of projects and the settings of the agent, from which everything else follows: the
document's own load, what would be with ten and with ten thousand projects, and the quantities of its cost table. Sizes
of that are the document's; what it left out (copies for the feed, transactions, whole items in the index) is counted here.
A load has the sizes of what is really written, which the design check measures; the last of `WHAT_IF` has the document's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from agenticpm import patterns
from agenticpm.configs import Configs
from agenticpm.contents import ArtefactType
from agenticpm.model import GLOBAL, gsi1, table
from agenticpm.schedules import DUE_S, LOOP_S
from holdfast import Load, StatedCost, StatedCosts, StatedSize, Volume

KB: Final = 1000
MB: Final = 1000 * KB
GB_BILLED: Final = 1024**3
WRITE_UNIT_BYTES: Final = 1024
READ_UNIT_BYTES: Final = 4096
ITEM_OVERHEAD_BYTES: Final = 100
# No page of a query is larger.
PAGE_BYTES_MAX: Final = 1024 * 1024

MONTH_DAYS: Final = 30
DAY_MINUTES: Final = 24 * 60
# The cycles of all projects begin together; in so many minutes of each interval all that they do is done.
BURST_MINUTES: Final = 1

# --- the document's assumptions, for its one or two projects: of one in a month ------------------------------------

EVENTS: Final = 2000
EVENT_BYTES: Final = 25 * KB
ACTIONS_A_QUARTER: Final = 3000
ACTION_BYTES: Final = 10 * KB
ARTEFACT_VERSION_BYTES: Final = 12 * KB
PROJECT_BYTES: Final = 1 * KB
ESCALATIONS_BYTES: Final = 5 * MB
SETTINGS_BYTES: Final = 100 * KB
# What it states for all of it.
STATED_BYTES: Final = 120 * MB

# --- ours, of one project in a month: the document does not say -----------------------------------------------------

REFERENCE_BYTES: Final = 500
ESCALATIONS: Final = 20
ESCALATION_BYTES: Final = 5 * KB
PENDING: Final = 10
ARTEFACT_UPDATES: Final = 300
LARGE_ARTEFACTS: Final = 3
QUESTIONS: Final = 1000
# How many of the questions are for a page of events, of actions, and of all events of a day.
EVENT_PAGES: Final = 300
ACTION_PAGES: Final = 300
DAY_PAGES: Final = 100
CHANGES: Final = 30
# What a cycle moves: how far the tracker was read, what was last seen of it, and when the cycle was.
MARKS: Final = 3
SMALL_BYTES: Final = 500

# Patterns whose writes are only ever parts of transactions: with the event that tells of them.
TRANSACTED: Final = tuple(
    each.id
    for each in (
        patterns.create_project,
        patterns.change_status,
        patterns.change_project,
        patterns.create_artefact,
        patterns.put_artefact,
        patterns.record_event,
        patterns.record_reference,
        patterns.create_escalation,
        patterns.end_escalation,
        patterns.put_checkpoint,
        patterns.put_integration,
        patterns.note_health,
        patterns.put_config,
        patterns.HOLD.patterns.hold,
        patterns.HOLD.patterns.complete,
        patterns.HOLD.patterns.review,
    )
)
# How large the document says that items are, by the patterns that write them.
DOCUMENT_SIZES: Final = {
    each.id: size
    for size, several in (
        (EVENT_BYTES, (patterns.record_event,)),
        (ACTION_BYTES, patterns.HOLD.patterns.writes),
        (ESCALATION_BYTES, (patterns.create_escalation, patterns.end_escalation)),
        (2 * ARTEFACT_VERSION_BYTES, (patterns.create_artefact, patterns.put_artefact)),
    )
    for each in several
}
# What is one partition at any moment, whatever happens: the feed of all projects, a day, a status, all that is held.
ONE_KEY: Final = {
    table.name: (str(GLOBAL),),
    gsi1.name: ("EVENT#*", "ACTION#*", "STATUS#*", "ESCALATION#*"),
}


def load_of(projects: int, settings: Configs, sizes: Mapping[str, int] | None = None) -> Load:
    """What so many projects make the system bear, when the agent is set so. Without sizes, items are as the examples'."""
    cycles = cycles_a_month(settings)
    of_one = {
        "cycle of a project": cycles,
        "question": QUESTIONS,
        "event": events_of_project(settings),
        "action": ACTIONS_A_QUARTER / 3,
        "escalation": ESCALATIONS,
        "artefact update": ARTEFACT_UPDATES,
        "large artefact": LARGE_ARTEFACTS,
        "change by a person": CHANGES,
    }
    volumes = {per: Volume(count * projects, distinct_keys=projects) for per, count in of_one.items()}
    volumes |= {
        "turn of the loop": Volume(cycles),
        "look of the loop": Volume(_looks(LOOP_S)),
        "look for what is due": Volume(_looks(DUE_S)),
        # Outside of working hours no project is looked at.
        "look at a project": Volume(
            _looks(LOOP_S) * _open_share(settings) * projects, distinct_keys=projects
        ),
    }
    return Load(
        volumes,
        peak_factor=peak_of(settings),
        grows_to={table.name: 2 * ARTEFACT_VERSION_BYTES},
        one_key=ONE_KEY,
        transacted=TRANSACTED,
        item_bytes=sizes or {},
    )


def cycles_a_month(settings: Configs) -> float:
    """How often a project is looked at: every interval, inside working hours."""
    return open_minutes(settings) / settings.polling_interval_minutes * MONTH_DAYS


def open_minutes(settings: Configs) -> int:
    """Of a day on which no clock is changed."""
    midnight = datetime(2026, 2, 4, tzinfo=UTC)
    return sum(
        settings.working_hours.are_open(midnight + timedelta(minutes=each)) for each in range(DAY_MINUTES)
    )


def events_of_project(settings: Configs) -> float:
    """A heartbeat for each cycle, and beside it what the document's number leaves at its own interval and hours."""
    return cycles_a_month(settings) + EVENTS - cycles_a_month(DEFAULT)


def peak_of(settings: Configs) -> float:
    """Peak over average: all of a day falls into working hours, and all of an interval into its beginning."""
    return max(1.0, settings.polling_interval_minutes / BURST_MINUTES) / _open_share(settings)


def _looks(every_s: float) -> float:
    """How often in a month something is looked for that is looked for so often."""
    return MONTH_DAYS * DAY_MINUTES * 60 / every_s


def _open_share(settings: Configs) -> float:
    return open_minutes(settings) / DAY_MINUTES


# --- what is written, read and kept in a month ----------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """Items of a kind: how many writes, of what size, how many of them reach the index, and whether in transactions."""

    count: float
    size_bytes: float
    index_writes: float = 0
    is_transacted: bool = True

    @property
    def units(self) -> float:
        return self.count * self._unit

    @property
    def index_units(self) -> float:
        return self.index_writes * self._unit

    @property
    def _unit(self) -> float:
        return math.ceil(self.size_bytes / WRITE_UNIT_BYTES) * (2 if self.is_transacted else 1)


@dataclass(frozen=True)
class Read:
    """Answers of a kind: how many, of what size; at half the price where they may be a moment old."""

    count: float
    size_bytes: float
    is_consistent: bool = False

    @property
    def units(self) -> float:
        return self.count * self.unit

    @property
    def unit(self) -> float:
        """What one takes."""
        units = math.ceil(min(self.size_bytes, PAGE_BYTES_MAX) / READ_UNIT_BYTES)
        return units * (1 if self.is_consistent else 0.5)


@dataclass(frozen=True)
class Kept:
    """Items of a kind: how many, and how many bytes they have together."""

    items: float
    size_bytes: float

    @property
    def billed_gb(self) -> float:
        return (self.size_bytes + self.items * ITEM_OVERHEAD_BYTES) / GB_BILLED


def written(settings: Configs) -> tuple[Written, ...]:
    """The writes of one project, at the document's sizes."""
    cycles, events, actions = (
        cycles_a_month(settings),
        events_of_project(settings),
        ACTIONS_A_QUARTER / 3,
    )
    return (
        Written(events, EVENT_BYTES, index_writes=events),
        Written(events, REFERENCE_BYTES),
        # Held, claimed, done: into the index with the first, out of it with the second.
        Written(2 * actions, ACTION_BYTES, index_writes=actions),
        Written(actions, ACTION_BYTES, index_writes=actions, is_transacted=False),
        # Asked, and decided: which takes it out of one place of the index and into another.
        Written(2 * ESCALATIONS, ESCALATION_BYTES, index_writes=3 * ESCALATIONS),
        Written(ARTEFACT_UPDATES, 2 * ARTEFACT_VERSION_BYTES),
        Written(MARKS * cycles, SMALL_BYTES),
        # What the day has cost.
        Written(cycles, SMALL_BYTES, is_transacted=False),
    )


def read_of_table(settings: Configs) -> dict[str, Read]:
    """The reads of one project, by what they are of."""
    cycles = cycles_a_month(settings)
    rest = QUESTIONS - EVENT_PAGES - ACTION_PAGES - DAY_PAGES
    return {
        "artefacts": Read(cycles, len(ArtefactType) * 2 * ARTEFACT_VERSION_BYTES, is_consistent=True),
        "marks": Read(MARKS * cycles, SMALL_BYTES, is_consistent=True),
        # Whether it is time: the settings, day and night, and when a project was last looked at, inside working hours.
        "settings": Read(_looks(LOOP_S), SMALL_BYTES, is_consistent=True),
        "last looks": Read(_looks(LOOP_S) * _open_share(settings), SMALL_BYTES, is_consistent=True),
        # All questions of a project, to find the one that a new one takes the place of.
        "questions": Read(
            ESCALATIONS * ESCALATIONS_BYTES / PAGE_BYTES_MAX, PAGE_BYTES_MAX, is_consistent=True
        ),
        "event pages": Read(EVENT_PAGES, patterns.PAGE * EVENT_BYTES),
        "action pages": Read(ACTION_PAGES, patterns.PAGE * ACTION_BYTES),
        "rest": Read(rest, SMALL_BYTES, is_consistent=True),
    }


def read_of_index(settings: Configs) -> tuple[Read, ...]:
    return (
        Read(_looks(LOOP_S) * _open_share(settings), PROJECT_BYTES),
        Read(_looks(LOOP_S), PENDING * ESCALATION_BYTES),
        Read(_looks(DUE_S), SMALL_BYTES),
        Read(DAY_PAGES, events_of_project(settings) / MONTH_DAYS * EVENT_BYTES),
    )


def kept(settings: Configs) -> dict[str, Kept]:
    """What one project has in the table, by what it is."""
    events = events_of_project(settings)
    artefacts = len(ArtefactType)
    return {
        "projects": Kept(1, PROJECT_BYTES),
        "artefacts": Kept(artefacts, artefacts * 2 * ARTEFACT_VERSION_BYTES),
        "events": Kept(events, events * EVENT_BYTES),
        "references": Kept(events, events * REFERENCE_BYTES),
        "actions": Kept(ACTIONS_A_QUARTER, ACTIONS_A_QUARTER * ACTION_BYTES),
        "escalations": Kept(ESCALATIONS_BYTES / ESCALATION_BYTES, ESCALATIONS_BYTES),
        "settings": Kept(SETTINGS_BYTES / SMALL_BYTES, SETTINGS_BYTES),
    }


def together(several: Iterable[Kept]) -> Kept:
    parts = list(several)
    return Kept(sum(each.items for each in parts), sum(each.size_bytes for each in parts))


def of_index(kinds: dict[str, Kept]) -> Kept:
    """The index holds whole items of these. A held action is in it for half an hour: that is nothing in a month."""
    return together(kinds[name] for name in ("projects", "events", "escalations"))


# --- the document's two tables ----------------------------------------------------------------------------------------


def stated_costs(settings: Configs) -> StatedCosts:
    """Its cost and storage tables, line by line, with what each comes to and why."""
    return StatedCosts(
        source="section 4.3 of the design document",
        prices="dynamodb-2018-11",
        costs=_cost_lines(settings),
        total=0.25,
        sizes=_size_lines(settings),
        size_total_bytes=STATED_BYTES,
    )


def _cost_lines(settings: Configs) -> tuple[StatedCost, ...]:
    kinds, writes = kept(settings), written(settings)
    base, index = together(kinds.values()), of_index(kinds)
    event, reference = writes[0], writes[1]
    reads = read_of_table(settings)
    return (
        StatedCost(
            "Storage", "GB stored", 0.12, 0.03, base.billed_gb,
            f"the {STATED_BYTES // MB} MB have the index in them, which has a line of its own; each item takes "
            f"{ITEM_OVERHEAD_BYTES} bytes more",
        ),
        StatedCost(
            "Write requests", "write units", 50_000, 0.06, sum(each.units for each in writes),
            f"billed by the KB: an event of {EVENT_BYTES // KB} KB, which is the document's size, is "
            f"{event.units / event.count:,.0f} units in its transaction: {event.units:,.0f} for all, "
            f"{reference.units:,.0f} for their references in the feed, the rest for actions and artefacts",
        ),
        StatedCost(
            "Read requests", "read units", 200_000, 0.05, sum(each.units for each in reads.values()),
            f"by the {READ_UNIT_BYTES // 1024} KB: the artefacts of a cycle are {reads['artefacts'].unit:,.0f} units, a page of "
            f"{patterns.PAGE} events {reads['event pages'].unit:,.0f}; every {LOOP_S:.0f} s it is looked whether it is time "
            "for a cycle",
        ),
        StatedCost(
            "GSI storage", "GB stored", 0.03, 0.01, index.billed_gb,
            "its projection is ALL: whole events and escalations are in it",
        ),
        StatedCost(
            "GSI writes", "write units", 50_000, 0.06, sum(each.index_units for each in writes),
            "whole items again: an event is as large in the index; an action goes in and out",
        ),
        StatedCost(
            "GSI reads", "read units", 50_000, 0.01, sum(each.units for each in read_of_index(settings)),
            f"every {LOOP_S:.0f} s projects and pending escalations, every {DUE_S:.0f} s what is held and due; a day of events "
            f"is read by the page, of {PAGE_BYTES_MAX // 1024**2} MB at most",
        ),
        StatedCost(
            "Point-in-time recovery", "GB recoverable", 0.12, 0.02, base.billed_gb,
            "billed by the table without its global index",
        ),
    )  # fmt: skip


def _size_lines(settings: Configs) -> tuple[StatedSize, ...]:
    kinds = kept(settings)
    all_day = DAY_MINUTES / settings.polling_interval_minutes * MONTH_DAYS
    return (
        StatedSize("Projects", 1 * KB, kinds["projects"].size_bytes, "~1 KB per project"),
        StatedSize(
            "Artefacts", 100 * KB, kinds["artefacts"].size_bytes, "~100 KB per artefact; 4 types × 2 versions × ~12 KB",
            "its own reckoning is of a project with all four, not of one artefact",
        ),
        StatedSize(
            "Events", 50 * MB, kinds["events"].size_bytes, "~2000 a month × 25 KB",
            f"{cycles_a_month(settings):,.0f} of them are heartbeats, inside working hours; polling all day they would be "
            f"{all_day:,.0f}",
        ),
        StatedSize("References in the feed", 0, kinds["references"].size_bytes, "left out", "one for each event"),
        StatedSize("Actions", 30 * MB, kinds["actions"].size_bytes, "~3000 a quarter × 10 KB"),
        StatedSize("Escalations", 5 * MB, kinds["escalations"].size_bytes, "accumulates"),
        StatedSize("Checkpoints and configs", 100 * KB, kinds["settings"].size_bytes, "fixed"),
        StatedSize(
            "GSI1", 30 * MB, of_index(kinds).size_bytes, "partial projection",
            "the projection is ALL, as 4.1 says: as large as the events, escalations and projects themselves",
        ),
    )  # fmt: skip


DEFAULT: Final = Configs.of({})
# One project is what the document's numbers are met by: its 2000 events are 1200 heartbeats and 800 more.
LOAD: Final = load_of(1, DEFAULT)
WHAT_IF: Final = {
    "10 projects": load_of(10, DEFAULT),
    "10,000 projects": load_of(10_000, DEFAULT),
    f"10,000 projects with the document's items (events of {EVENT_BYTES // KB} KB)": load_of(
        10_000, DEFAULT, DOCUMENT_SIZES
    ),
}
STATED_COSTS: Final = stated_costs(DEFAULT)
