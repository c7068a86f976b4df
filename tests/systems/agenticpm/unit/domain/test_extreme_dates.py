"""Tests of signals and artefacts with extreme dates, which some trackers use for "never"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType, validate_content
from agenticpm.domain.signals import detect_mail_signals
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import (
    EARLIEST,
    LATEST,
    FieldChange,
    MailMessage,
    MailPage,
    Milestone,
    Snapshot,
    Sprint,
    TicketStage,
    Writing,
)
from agenticpm.domain.writers.backlog_summary import build_backlog_summary
from agenticpm.domain.writers.delivery_state import build_delivery_state
from agenticpm.domain.writers.raid_log import build_raid_log
from tests.systems.agenticpm.unit.sample_snapshots import (
    NOW,
    detect_signals,
    get_keys,
    make_item,
    make_snapshot,
    make_ticket,
)

EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
EDGES = [
    datetime.max.replace(tzinfo=WEST),
    datetime.max.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=EAST),
    datetime.min.replace(tzinfo=UTC),
]


def make_extreme_snapshot(first: datetime, second: datetime) -> Snapshot:
    """Make a snapshot whose tickets, sprints and milestones have only these two dates."""
    fields: dict[str, Any] = {
        "created_at": first,
        "updated_at": second,
        "started_at": first,
        "due_at": second,
    }
    tickets = [
        make_ticket("MCU-1", is_blocked=True, sprint="12", milestone="Beta", **fields),
        make_ticket("MCU-2", stage=TicketStage.in_progress, sprint="12", has_criteria=False, **fields),
        make_ticket("MCU-3", stage=TicketStage.done, sprint="11", resolved_at=second, **fields),
    ]
    sprints = [
        Sprint(id="12", name="Sprint 12", starts_at=first, ends_at=second),
        Sprint(id="11", name="Sprint 11", state="closed", starts_at=first, completed_at=second),
        Sprint(id="10", name="Sprint 10", state="future", starts_at=second),
    ]
    return make_snapshot(
        *tickets,
        sprints=tuple(sprints),
        milestones=(Milestone(name="Beta", due_at=first), Milestone(name="Launch", due_at=second)),
    )


@pytest.mark.parametrize(("first", "second"), list(product(EDGES, EDGES)))
def test_detects_signals_and_writes_artefacts_for_extreme_dates(first: datetime, second: datetime) -> None:
    """Nothing raises, and every content is valid."""
    after = make_extreme_snapshot(first, second)
    change = FieldChange(id="1", ticket="MCU-1", field="Sprint", after="12", at=first)
    log = {"items": [make_item(due_date="9999-12-31T23:59:59Z", raised_date="0001-01-01T00:00:00Z")]}
    seen, signals = detect_signals(make_snapshot(), after, [change], raid_log=log)
    assert "blocked:MCU-1" in get_keys(signals)
    assert Snapshot.model_validate_json(seen.model_dump_json(exclude_defaults=True)) == seen
    mail = MailMessage(id="m-1", subject="MCU-1 is late", received_at=first)
    seen, _ = detect_mail_signals(seen, MailPage(messages=(mail,), checkpoint="c"), "MCU", NOW)
    for type, write in (
        ("raid_log", build_raid_log),
        ("delivery_state", build_delivery_state),
        ("backlog_summary", build_backlog_summary),
    ):
        previous = log if type == "raid_log" else None
        writing = Writing(type=type, previous=previous, snapshot=seen, signals=(), raid_log=None, now=NOW)
        validate_content(ArtefactType(type), write(writing, Thresholds()))


def test_clamps_only_dates_outside_the_bounds() -> None:
    assert [Milestone(name="Beta", due_at=each).due_at for each in EDGES] == [
        LATEST,
        LATEST,
        EARLIEST,
        EARLIEST,
    ]
    usual = datetime(2026, 2, 11, 9, tzinfo=EAST)
    due = Milestone(name="Beta", due_at=usual).due_at
    assert due is not None
    assert (due, due.utcoffset()) == (usual, timedelta(hours=14))
