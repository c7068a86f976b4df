"""Layouts of artefacts: each content as a list of headings, facts, tables and lists, for any output format.

The texts in the blocks are raw; `exports.py` renders and escapes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from decimal import Decimal
from typing import Any, Final, TypeAlias

from agenticpm.domain.contents import (
    ArtefactType,
    BacklogSummary,
    Blocker,
    Decision,
    DecisionLog,
    DeliveryState,
    RaidItem,
    RaidLog,
    parse_as,
)

EMPTY: Final = "–"


@dataclass(frozen=True)
class Heading:
    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Status:
    """A status light: red, amber or green."""

    colour: str


@dataclass(frozen=True)
class Facts:
    """A table of two columns: names and values."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Grid:
    """A table with column names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Bullets:
    texts: tuple[str, ...]


Block: TypeAlias = Heading | Paragraph | Status | Facts | Grid | Bullets


def build_layout(type: ArtefactType, content: Mapping[str, Any]) -> list[Block]:
    """Return the blocks of an artefact from its full content. Raise ValueError if the content is invalid."""
    return _LAYOUTS[type](content)


def _build_delivery_state(content: Mapping[str, Any]) -> list[Block]:
    state = parse_as(DeliveryState, content)
    metrics = state.key_metrics
    return [
        Heading(1, "Delivery state"),
        Status(state.overall_status),
        Paragraph(state.status_summary),
        *_build_sprint(state),
        Heading(2, "Milestones"),
        _build_grid(
            ("Milestone", "Due", "Status", "Notes"),
            ((each.name, each.due_date, _to_words(each.status), each.notes) for each in state.milestones),
        ),
        Heading(2, "Blockers"),
        _build_grid(
            ("Id", "Blocker", "Severity", "Owner", "Since", "Ticket"),
            (_build_blocker_row(each) for each in state.blockers),
        ),
        Heading(2, "Key metrics"),
        _build_facts(
            ("Velocity", metrics.velocity_trend),
            ("Average cycle time in days", metrics.avg_cycle_time_days),
            ("Open blockers", metrics.open_blockers),
            ("Active risks", metrics.active_risks),
        ),
        Heading(2, "Next actions"),
        Bullets(tuple(state.next_actions)),
    ]


def _build_sprint(state: DeliveryState) -> list[Block]:
    """Build the blocks of the current sprint, or of its absence."""
    sprint = state.current_sprint
    if sprint is None:
        return [Heading(2, "Sprint"), Paragraph("There is no sprint at the moment.")]
    points = sprint.progress
    return [
        Heading(2, f"Sprint: {sprint.name}"),
        _build_facts(
            ("Goal", sprint.goal),
            ("From", sprint.start_date),
            ("To", sprint.end_date),
            ("Points in all", points.total_points),
            ("Completed", points.completed_points),
            ("In progress", points.in_progress_points),
            ("Blocked", points.blocked_points),
        ),
    ]


def _build_blocker_row(blocker: Blocker) -> tuple[Any, ...]:
    return (
        blocker.id,
        blocker.description,
        blocker.severity,
        blocker.owner,
        blocker.raised_date,
        blocker.source_ticket,
    )


def _build_raid_log(content: Mapping[str, Any]) -> list[Block]:
    items = parse_as(RaidLog, content).items
    blocks: list[Block] = [Heading(1, "RAID log")]
    for type, name in _RAID_TYPES.items():
        rows = [_build_raid_row(each) for each in items if each.type == type]
        blocks += [Heading(2, name), _build_grid(_RAID_COLUMNS, rows)]
    return blocks


def _build_raid_row(item: RaidItem) -> tuple[Any, ...]:
    return (
        item.id,
        item.title,
        item.description,
        item.severity,
        item.status,
        item.owner,
        item.raised_date,
        item.due_date,
        item.resolution if item.is_finished else item.mitigation,
        item.last_reviewed,
        item.source_reference,
    )


def _build_decision_log(content: Mapping[str, Any]) -> list[Block]:
    blocks: list[Block] = [Heading(1, "Decision log")]
    decisions = parse_as(DecisionLog, content).decisions
    for each in decisions:
        blocks += _build_decision(each)
    return blocks if decisions else [*blocks, Paragraph("Nothing has been decided yet.")]


def _build_decision(decision: Decision) -> list[Block]:
    return [
        Heading(2, f"{decision.id}: {decision.title}"),
        _build_facts(
            ("Decision", decision.decision),
            ("Rationale", decision.rationale),
            ("Made by", decision.made_by),
            ("On", decision.date),
            ("Status", decision.status),
            ("RAID items", ", ".join(decision.related_raid_items)),
        ),
        Paragraph(decision.context),
        _build_grid(
            ("Option", "For", "Against"),
            (
                (each.option, "; ".join(each.pros), "; ".join(each.cons))
                for each in decision.options_considered
            ),
        ),
    ]


def _build_backlog_summary(content: Mapping[str, Any]) -> list[Block]:
    backlog = parse_as(BacklogSummary, content)
    counts = backlog.summary
    return [
        Heading(1, "Backlog summary"),
        _build_facts(
            ("Source", backlog.source),
            ("Last synced", backlog.last_synced),
            ("Items", counts.total_items),
            *((_to_words(name), value) for name, value in counts.by_status),
            *((f"Priority {name}", value) for name, value in counts.by_priority),
        ),
        Heading(2, "Highlights"),
        _build_grid(
            ("Ticket", "Title", "Flag", "Detail", "Suggested action"),
            (
                (each.ticket_id, each.title, _to_words(each.flag), each.detail, each.suggested_action)
                for each in backlog.highlights
            ),
        ),
        Heading(2, "To be refined"),
        _build_grid(
            ("Ticket", "Title", "Issue"),
            ((each.ticket_id, each.title, each.issue) for each in backlog.refinement_candidates),
        ),
        Heading(2, "Scope"),
        Paragraph(backlog.scope_notes),
    ]


# --- values -------------------------------------------------------------------------------------------------


def _build_facts(*rows: tuple[str, Any]) -> Facts:
    return Facts(tuple((name, _format_value(value)) for name, value in rows))


def _build_grid(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Grid:
    return Grid(tuple(columns), tuple(tuple(map(_format_value, row)) for row in rows))


def _format_value(value: Any) -> str:
    """Format a value as text: midnight as a day, other times in UTC, and `–` for None or an empty text."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d}" if value.time() == time(0) else f"{value:%Y-%m-%d %H:%M} UTC"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return EMPTY if value in (None, "") else str(value)


def _to_words(name: str) -> str:
    """Replace underscores by spaces."""
    return name.replace("_", " ")


_LAYOUTS: Final[Mapping[ArtefactType, Callable[[Mapping[str, Any]], list[Block]]]] = {
    ArtefactType.delivery_state: _build_delivery_state,
    ArtefactType.raid_log: _build_raid_log,
    ArtefactType.backlog_summary: _build_backlog_summary,
    ArtefactType.decision_log: _build_decision_log,
}
_RAID_TYPES: Final = {
    "risk": "Risks",
    "assumption": "Assumptions",
    "issue": "Issues",
    "dependency": "Dependencies",
}
_RAID_COLUMNS: Final = (
    "Id",
    "Title",
    "Description",
    "Severity",
    "Status",
    "Owner",
    "Raised",
    "Due",
    "Mitigation or resolution",
    "Reviewed",
    "Reference",
)
