"""Load model: how much AgenticPM reads, writes and stores per month, and its cost by the document's table.

`build_load` derives a load from the number of projects and the agent's settings: the document's own load, the
loads with ten and ten thousand projects, and the quantities of the cost table. Sizes in that table are the
document's; what it leaves out (copies for the feed, transactions, whole items in the index) is counted here.
A load uses the sizes that are really written, which the design check measures; the last entry of `WHAT_IF`
uses the document's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import patterns
from agenticpm.model.agent_settings import AgentSettings
from agenticpm.model.entities import GLOBAL, gsi1, table
from agenticpm.workers.schedules import DUE_S, LOOP_S
from holdfast import Load, Volume
from holdfast.model.stated_costs import StatedCost, StatedCosts, StatedSize

KB: Final = 1000
MB: Final = 1000 * KB
GB_BILLED: Final = 1024**3
WRITE_UNIT_BYTES: Final = 1024
READ_UNIT_BYTES: Final = 4096
ITEM_OVERHEAD_BYTES: Final = 100
# The maximum page of a query.
MAX_PAGE_BYTES: Final = 1024 * 1024

MONTH_DAYS: Final = 30
DAY_MINUTES: Final = 24 * 60
# The cycles of all projects start together and finish within this part of each interval.
BURST_MINUTES: Final = 1

# --- the document's assumptions for one project in a month ------------------------------------

EVENTS: Final = 2000
EVENT_BYTES: Final = 25 * KB
ACTIONS_PER_QUARTER: Final = 3000
ACTION_BYTES: Final = 10 * KB
ARTEFACT_VERSION_BYTES: Final = 12 * KB
PROJECT_BYTES: Final = 1 * KB
ESCALATIONS_BYTES: Final = 5 * MB
SETTINGS_BYTES: Final = 100 * KB
# The document's total.
STATED_BYTES: Final = 120 * MB

# --- our assumptions for one project in a month, which the document leaves open -----------------------------

REFERENCE_BYTES: Final = 500
ESCALATIONS: Final = 20
ESCALATION_BYTES: Final = 5 * KB
PENDING: Final = 10
ARTEFACT_UPDATES: Final = 300
LARGE_ARTEFACTS: Final = 3
QUESTIONS: Final = 1000
# The number of questions for a page of events, for a page of actions, and for all events of a day.
EVENT_PAGES: Final = 300
ACTION_PAGES: Final = 300
DAY_PAGES: Final = 100
CHANGES: Final = 30
# The checkpoints that a cycle writes: tracker position, snapshot pointer, and time of the cycle.
MARKS: Final = 3
SMALL_BYTES: Final = 500

# Patterns whose writes are always part of a transaction, together with their event.
TRANSACTION_PATTERNS: Final = tuple(
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
        patterns.ACTION_QUEUE.pattern_set.hold,
        patterns.ACTION_QUEUE.pattern_set.complete,
        patterns.ACTION_QUEUE.pattern_set.review,
    )
)
# The document's item sizes, by the patterns that write them.
DOCUMENT_SIZES: Final = {
    each.id: size
    for size, several in (
        (EVENT_BYTES, (patterns.record_event,)),
        (ACTION_BYTES, patterns.ACTION_QUEUE.writes),
        (ESCALATION_BYTES, (patterns.create_escalation, patterns.end_escalation)),
        (2 * ARTEFACT_VERSION_BYTES, (patterns.create_artefact, patterns.put_artefact)),
    )
    for each in several
}
# Keys that are a single partition at any time: the feed of all projects, a day, a status, all held actions.
SINGLE_PARTITIONS: Final = {
    table.name: (str(GLOBAL),),
    gsi1.name: ("EVENT#*", "ACTION#*", "STATUS#*", "ESCALATION#*"),
}


def build_load(projects: int, settings: AgentSettings, sizes: Mapping[str, int] | None = None) -> Load:
    """Build the load of this many projects with these settings.

    `sizes` are item sizes in bytes by pattern id; without them, items have the sizes of the examples.
    """
    cycles = count_cycles_per_month(settings)
    of_one = {
        "cycle of a project": cycles,
        "question": QUESTIONS,
        "event": count_events_per_month(settings),
        "action": ACTIONS_PER_QUARTER / 3,
        "escalation": ESCALATIONS,
        "artefact update": ARTEFACT_UPDATES,
        "large artefact": LARGE_ARTEFACTS,
        "change by a person": CHANGES,
    }
    volumes = {per: Volume(count * projects, distinct_keys=projects) for per, count in of_one.items()}
    volumes |= {
        "turn of the loop": Volume(cycles),
        "look of the loop": Volume(_count_polls_per_month(LOOP_S)),
        "look for what is due": Volume(_count_polls_per_month(DUE_S)),
        # No project is polled outside working hours.
        "look at a project": Volume(
            _count_polls_per_month(LOOP_S) * _compute_open_share(settings) * projects, distinct_keys=projects
        ),
    }
    return Load(
        volumes,
        peak_factor=compute_peak_factor(settings),
        max_item_bytes={table.name: 2 * ARTEFACT_VERSION_BYTES},
        hot_keys=SINGLE_PARTITIONS,
        transacted_patterns=TRANSACTION_PATTERNS,
        item_bytes=sizes or {},
    )


def count_cycles_per_month(settings: AgentSettings) -> float:
    """Count the cycles of a project per month: one every interval within working hours."""
    return count_open_minutes(settings) / settings.polling_interval_minutes * MONTH_DAYS


def count_open_minutes(settings: AgentSettings) -> int:
    """Count the minutes of working hours on a day without a clock change (2026-02-04)."""
    midnight = datetime(2026, 2, 4, tzinfo=UTC)
    return sum(
        settings.working_hours.is_open(midnight + timedelta(minutes=each)) for each in range(DAY_MINUTES)
    )


def count_events_per_month(settings: AgentSettings) -> float:
    """Count the events per month: one heartbeat per cycle, plus the document's other events.

    The others are its 2000 events less the heartbeats at the default settings.
    """
    return count_cycles_per_month(settings) + EVENTS - count_cycles_per_month(DEFAULT)


def compute_peak_factor(settings: AgentSettings) -> float:
    """Return peak over average: work falls into working hours, and into an interval's first minute."""
    return max(1.0, settings.polling_interval_minutes / BURST_MINUTES) / _compute_open_share(settings)


def _count_polls_per_month(every_s: float) -> float:
    """Count how often per month something is polled at this interval."""
    return MONTH_DAYS * DAY_MINUTES * 60 / every_s


def _compute_open_share(settings: AgentSettings) -> float:
    """Return the share of a day that is working hours."""
    return count_open_minutes(settings) / DAY_MINUTES


# --- writes, reads and storage per month --------------------------------------------------------------------


@dataclass(frozen=True)
class WriteVolume:
    """Monthly writes of one kind: number, item size, writes to the index, and if they are transactional."""

    count: float
    size_bytes: float
    index_writes: float = 0
    is_transacted: bool = True

    @property
    def units(self) -> float:
        """The write units of all these writes to the table."""
        return self.count * self._unit

    @property
    def index_units(self) -> float:
        """The write units of all these writes to the index."""
        return self.index_writes * self._unit

    @property
    def _unit(self) -> float:
        """The write units of one write: one per KiB, twice in a transaction."""
        return math.ceil(self.size_bytes / WRITE_UNIT_BYTES) * (2 if self.is_transacted else 1)


@dataclass(frozen=True)
class ReadVolume:
    """Monthly reads of one kind: number and size; eventually consistent ones cost half."""

    count: float
    size_bytes: float
    is_consistent: bool = False

    @property
    def units(self) -> float:
        """The read units of all these reads."""
        return self.count * self.unit

    @property
    def unit(self) -> float:
        """The read units of one read, of one page at most."""
        units = math.ceil(min(self.size_bytes, MAX_PAGE_BYTES) / READ_UNIT_BYTES)
        return units * (1 if self.is_consistent else 0.5)


@dataclass(frozen=True)
class StoredVolume:
    """Stored items of one kind: number and total bytes."""

    items: float
    size_bytes: float

    @property
    def billed_gb(self) -> float:
        """The billed size in GiB, with 100 bytes of overhead per item."""
        return (self.size_bytes + self.items * ITEM_OVERHEAD_BYTES) / GB_BILLED


def list_writes(settings: AgentSettings) -> tuple[WriteVolume, ...]:
    """List the monthly writes of one project at the document's sizes: events, their references, others."""
    cycles, events, actions = (
        count_cycles_per_month(settings),
        count_events_per_month(settings),
        ACTIONS_PER_QUARTER / 3,
    )
    return (
        WriteVolume(events, EVENT_BYTES, index_writes=events),
        WriteVolume(events, REFERENCE_BYTES),
        # Held, claimed, done: the first write enters the index, the second leaves it.
        WriteVolume(2 * actions, ACTION_BYTES, index_writes=actions),
        WriteVolume(actions, ACTION_BYTES, index_writes=actions, is_transacted=False),
        # Created and decided: a decision deletes one index entry and writes another.
        WriteVolume(2 * ESCALATIONS, ESCALATION_BYTES, index_writes=3 * ESCALATIONS),
        WriteVolume(ARTEFACT_UPDATES, 2 * ARTEFACT_VERSION_BYTES),
        WriteVolume(MARKS * cycles, SMALL_BYTES),
        # The spend of the day.
        WriteVolume(cycles, SMALL_BYTES, is_transacted=False),
    )


def list_table_reads(settings: AgentSettings) -> dict[str, ReadVolume]:
    """Return the monthly reads of one project from the table, by kind."""
    cycles = count_cycles_per_month(settings)
    rest = QUESTIONS - EVENT_PAGES - ACTION_PAGES - DAY_PAGES
    return {
        "artefacts": ReadVolume(cycles, len(ArtefactType) * 2 * ARTEFACT_VERSION_BYTES, is_consistent=True),
        "marks": ReadVolume(MARKS * cycles, SMALL_BYTES, is_consistent=True),
        # Checking whether a cycle is due reads the settings at any time, and the last cycle within working
        # hours.
        "settings": ReadVolume(_count_polls_per_month(LOOP_S), SMALL_BYTES, is_consistent=True),
        "last looks": ReadVolume(
            _count_polls_per_month(LOOP_S) * _compute_open_share(settings), SMALL_BYTES, is_consistent=True
        ),
        # All escalations of a project, to find the one that a new one supersedes.
        "questions": ReadVolume(
            ESCALATIONS * ESCALATIONS_BYTES / MAX_PAGE_BYTES, MAX_PAGE_BYTES, is_consistent=True
        ),
        "event pages": ReadVolume(EVENT_PAGES, patterns.PAGE * EVENT_BYTES),
        "action pages": ReadVolume(ACTION_PAGES, patterns.PAGE * ACTION_BYTES),
        "rest": ReadVolume(rest, SMALL_BYTES, is_consistent=True),
    }


def list_index_reads(settings: AgentSettings) -> tuple[ReadVolume, ...]:
    """List the monthly reads of one project from the index."""
    return (
        ReadVolume(_count_polls_per_month(LOOP_S) * _compute_open_share(settings), PROJECT_BYTES),
        ReadVolume(_count_polls_per_month(LOOP_S), PENDING * ESCALATION_BYTES),
        ReadVolume(_count_polls_per_month(DUE_S), SMALL_BYTES),
        ReadVolume(DAY_PAGES, count_events_per_month(settings) / MONTH_DAYS * EVENT_BYTES),
    )


def list_stored(settings: AgentSettings) -> dict[str, StoredVolume]:
    """Return what one project stores in the table, by kind."""
    events = count_events_per_month(settings)
    artefacts = len(ArtefactType)
    return {
        "projects": StoredVolume(1, PROJECT_BYTES),
        "artefacts": StoredVolume(artefacts, artefacts * 2 * ARTEFACT_VERSION_BYTES),
        "events": StoredVolume(events, events * EVENT_BYTES),
        "references": StoredVolume(events, events * REFERENCE_BYTES),
        "actions": StoredVolume(ACTIONS_PER_QUARTER, ACTIONS_PER_QUARTER * ACTION_BYTES),
        "escalations": StoredVolume(ESCALATIONS_BYTES / ESCALATION_BYTES, ESCALATIONS_BYTES),
        "settings": StoredVolume(SETTINGS_BYTES / SMALL_BYTES, SETTINGS_BYTES),
    }


def sum_stored(several: Iterable[StoredVolume]) -> StoredVolume:
    parts = list(several)
    return StoredVolume(sum(each.items for each in parts), sum(each.size_bytes for each in parts))


def sum_indexed(kinds: dict[str, StoredVolume]) -> StoredVolume:
    """Sum what the index stores: whole projects, events and escalations, of the volumes by kind.

    Held actions are in it for minutes only and do not count.
    """
    return sum_stored(kinds[name] for name in ("projects", "events", "escalations"))


# --- the document's tables ----------------------------------------------------------------------------------


def build_stated_costs(settings: AgentSettings) -> StatedCosts:
    """Build the document's cost and storage tables, each line with our computed value and the reason."""
    return StatedCosts(
        source="section 4.3 of the design document",
        prices="dynamodb-2018-11",
        costs=_build_cost_lines(settings),
        total=0.25,
        sizes=_build_size_lines(settings),
        size_total_bytes=STATED_BYTES,
    )


def _build_cost_lines(settings: AgentSettings) -> tuple[StatedCost, ...]:
    """Build the lines of the document's cost table with the corrected quantities."""
    kinds, writes = list_stored(settings), list_writes(settings)
    base, index = sum_stored(kinds.values()), sum_indexed(kinds)
    event, reference = writes[0], writes[1]
    reads = list_table_reads(settings)
    return (
        StatedCost(
            "Storage", "GB stored", 0.12, 0.03, base.billed_gb,
            f"the {STATED_BYTES // MB} MB include the index, which has its own line; each item has "
            f"{ITEM_OVERHEAD_BYTES} bytes of overhead",
        ),
        StatedCost(
            "Write requests", "write units", 50_000, 0.06, sum(each.units for each in writes),
            f"billed by the KB: an event of {EVENT_BYTES // KB} KB, which is the document's size, is "
            f"{event.units / event.count:,.0f} units in its transaction: {event.units:,.0f} for all, "
            f"{reference.units:,.0f} for their references in the feed, the rest for actions and artefacts",
        ),
        StatedCost(
            "Read requests", "read units", 200_000, 0.05, sum(each.units for each in reads.values()),
            f"billed by {READ_UNIT_BYTES // 1024} KB: the artefacts of a cycle are "
            f"{reads['artefacts'].unit:,.0f} units, a page of {patterns.PAGE} events "
            f"{reads['event pages'].unit:,.0f}; the loop checks every {LOOP_S:.0f} s whether a cycle is due",
        ),
        StatedCost(
            "GSI storage", "GB stored", 0.03, 0.01, index.billed_gb,
            "its projection is ALL: it stores whole events and escalations",
        ),
        StatedCost(
            "GSI writes", "write units", 50_000, 0.06, sum(each.index_units for each in writes),
            "whole items again: an event is as large in the index; an action enters and leaves it",
        ),
        StatedCost(
            "GSI reads", "read units", 50_000, 0.01, sum(each.units for each in list_index_reads(settings)),
            f"every {LOOP_S:.0f} s projects and pending escalations, every {DUE_S:.0f} s due actions; a day "
            f"of events is read in pages of at most {MAX_PAGE_BYTES // 1024**2} MB",
        ),
        StatedCost(
            "Point-in-time recovery", "GB recoverable", 0.12, 0.02, base.billed_gb,
            "billed by the size of the table without its global index",
        ),
    )  # fmt: skip


def _build_size_lines(settings: AgentSettings) -> tuple[StatedSize, ...]:
    """Build the lines of the document's storage table with the corrected sizes."""
    kinds = list_stored(settings)
    all_day = DAY_MINUTES / settings.polling_interval_minutes * MONTH_DAYS
    return (
        StatedSize("Projects", 1 * KB, kinds["projects"].size_bytes, "~1 KB per project"),
        StatedSize(
            "Artefacts", 100 * KB, kinds["artefacts"].size_bytes,
            "~100 KB per artefact; 4 types × 2 versions × ~12 KB",
            "its own calculation is for a project with all four artefacts, not for one artefact",
        ),
        StatedSize(
            "Events", 50 * MB, kinds["events"].size_bytes, "~2000 a month × 25 KB",
            f"{count_cycles_per_month(settings):,.0f} of them are heartbeats within working hours; polling "
            "all day "
            f"would make {all_day:,.0f}",
        ),
        StatedSize(
            "References in the feed", 0, kinds["references"].size_bytes, "left out", "one for each event",
        ),
        StatedSize("Actions", 30 * MB, kinds["actions"].size_bytes, "~3000 a quarter × 10 KB"),
        StatedSize("Escalations", 5 * MB, kinds["escalations"].size_bytes, "accumulates"),
        StatedSize("Checkpoints and configs", 100 * KB, kinds["settings"].size_bytes, "fixed"),
        StatedSize(
            "GSI1", 30 * MB, sum_indexed(kinds).size_bytes, "partial projection",
            "the projection is ALL, as 4.1 says: as large as the events, escalations and projects themselves",
        ),
    )  # fmt: skip


DEFAULT: Final = AgentSettings.from_values({})
# One project meets the document's numbers: its 2000 events are 1200 heartbeats and 800 others.
LOAD: Final = build_load(1, DEFAULT)
WHAT_IF: Final = {
    "10 projects": build_load(10, DEFAULT),
    "10,000 projects": build_load(10_000, DEFAULT),
    f"10,000 projects with the document's items (events of {EVENT_BYTES // KB} KB)": build_load(
        10_000, DEFAULT, DOCUMENT_SIZES
    ),
}
STATED_COSTS: Final = build_stated_costs(DEFAULT)
