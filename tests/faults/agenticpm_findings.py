"""What a run of AgenticPM has left behind, in a form in which two runs can be compared: for `test_agenticpm_killed.py`.

Ids and times are left out: they are other ones in every run. All else must be the same.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from agenticpm.model import artefacts, escalations, patterns, snapshots
from agenticpm.model.entities import Action, Event, EventType, Project, get_utc_day, table
from holdfast import Stores
from holdfast.core.clock import Clock
from holdfast.guarantees.idempotency.record import format_key
from holdfast.operations.tables import Scan
from tests.faults.agenticpm_stage import START

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)")
_NUMBER = re.compile(r"\b[RDB]\d{3,9}\b")


@dataclass(frozen=True)
class Findings:
    """In the store, when all is done."""

    events: list[Event]
    references: list[Event]
    by_day: list[Event]
    actions: list[Action]
    signals: Counter[Any]
    held: Counter[Any]
    asked: Counter[Any]
    artefacts: dict[str, Any]
    tickets: dict[str, Any]
    flags: list[str]

    def of_type(self, type: EventType) -> list[Event]:
        return [each for each in self.events if each.event_type == type]


async def findings(stores: Stores, project: Project) -> Findings:
    own = list(await stores.all(patterns.project_events(project.id)))
    feed = list(await stores.all(patterns.recent_events()))
    of_none = [each for each in feed if each.project_id is None]
    actions = [
        each for scope in (project.id, None) for each in await stores.all(patterns.project_actions(scope))
    ]
    asked = await escalations.list_of_project(stores, project.id)
    snapshot = await snapshots.load_snapshot(stores, project, await _pointer(stores, project))
    assert snapshot is not None, "the checkpoint points to a snapshot that is not there"
    return Findings(
        events=[*own, *of_none],
        references=[each for each in feed if each.project_id is not None],
        by_day=await _by_day(stores, stores.clock),
        actions=actions,
        signals=Counter(_signal(each.detail or {}) for each in own if each.event_type == "signal_detected"),
        held=Counter((each.action_type, _because(each)) for each in actions),
        asked=Counter((_numberless(each.title), str(each.status)) for each in asked),
        artefacts={
            str(each.type): comparable(await artefacts.load_content(stores, each))
            for each in await stores.all(patterns.artefacts(project.id))
        },
        tickets={key: (each.status, each.is_blocked) for key, each in snapshot.tickets.items()},
        flags=sorted(map(_numberless, snapshot.flags)),
    )


async def everything(stores: Stores) -> list[Any]:
    """Every item of the table, as it is kept."""
    found: list[Any] = []
    start = None
    while True:
        page = await stores.tables.run(
            Scan(table=table.physical_name("test"), start_key=start, consistent=True)
        )
        found += page.items or ()
        if (start := page.last_key) is None:
            return sorted(found, key=lambda each: (each["PK"], each["SK"]))


def reference_of(action: Action) -> str:
    """Under which it is known at the parties."""
    return format_key(action)


def comparable(content: Any) -> Any:
    """Without ids and times, and lists of things in an order that does not depend on them."""
    if isinstance(content, Mapping):
        return {name: comparable(value) for name, value in content.items() if name != "id"}
    if isinstance(content, list | tuple):
        found = [comparable(each) for each in content]
        return sorted(found, key=lambda each: json.dumps(each, sort_keys=True, default=str))
    return _numberless(_TIME.sub("(time)", content)) if isinstance(content, str) else content


async def _pointer(stores: Stores, project: Project) -> snapshots.SeenCheckpoint:
    return await snapshots.read_checkpoint(stores, project.id, project.source, snapshots.SNAPSHOT)


async def _by_day(stores: Stores, clock: Clock) -> list[Event]:
    days = int((clock.now() - START.timestamp()) / 86400) + 2
    return [
        event
        for number in range(days)
        for event in await stores.all(patterns.events_of_day(get_utc_day(START + timedelta(days=number))))
    ]


def _signal(detail: Mapping[str, Any]) -> tuple[str, ...]:
    """Its kind, and what it is about. Risks are known by their titles: their numbers may differ. A mail is its id."""
    kind = str(detail["signal"])
    if kind.startswith(("risk_", "review_")):
        return kind, _numberless(detail["summary"])
    mail = detail["evidence"][0]["ticket"] if kind == "mail_mention" else ""
    return kind, detail["subject"], mail


def _because(action: Action) -> tuple[str, ...]:
    because = (action.detail or {}).get("because")
    return (_TIME.sub("", action.description),) if because is None else _signal(because)


def _numberless(text: str) -> str:
    return _NUMBER.sub("(number)", text)
