"""Once a day: what the day was like, and how much is stored. Nothing is pruned here: lifetimes see to that.

The digest and the measure are committed with the mark that says the day is done, in one transaction: each day has one.
The mail, where somebody wants it, is held like all that goes outward.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from agenticpm import actions, artefacts, configs, integrations, patterns
from agenticpm.addresses import outward_line, outward_text
from agenticpm.autonomy import MAIL, described
from agenticpm.budget import state as budget_state
from agenticpm.committing import OVERTAKEN, commit
from agenticpm.configs import Configs
from agenticpm.contents import ArtefactType
from agenticpm.events import moment, recorded
from agenticpm.model import ActionType, AgentConfig, Event, EventType, Integration, Project, Severity, table
from holdfast import Stores, Write, describe

DIGEST: Final = "digest"
# The document's projection of all that is stored (its section 4.3), and from which share of it on people are warned.
STORED_BYTES_PROJECTED: Final = 120_000_000
WARN_FROM: Final = 0.8
LINES_MAX: Final = 20
TEXT_CHARS_MAX: Final = 50_000


@dataclass(frozen=True)
class Digest:
    """A day in words, and how much is stored."""

    day: date
    text: str
    items: int
    bytes: int


async def daily(stores: Stores) -> Digest | None:
    """The digest of the day, made by whoever comes first after work has begun; None where it was made already."""
    settings = await configs.read(stores)
    now = moment(stores.clock)
    if not configs.is_working_hours(settings, now):
        return None
    today = now.astimezone(configs.zone_of(settings.working_hours.timezone)).date()
    seen = await stores.run(patterns.agent_config(DIGEST))
    if seen is not None and isinstance(seen.value, dict) and seen.value.get("date") == today.isoformat():
        return None
    since = now - timedelta(days=1) if seen is None else seen.updated_at
    digest = await made(stores, settings, today, since)
    mark = AgentConfig(key=DIGEST, value={"date": today.isoformat()}, updated_at=now)
    site = await integrations.site_in_effect(stores, Integration.resend)
    writes = _writes(stores, settings, digest, site)
    try:
        await commit(stores, patterns.put_record(mark, seen), *writes, what="The digest")
    except OVERTAKEN:
        return None  # another instance has made it
    return digest


async def made(stores: Stores, settings: Configs, today: date, since: datetime) -> Digest:
    """What happened since the digest before, project by project, as far as a mail has room for it."""
    events = await _since(stores, since)
    lines = [f"Digest of {today.isoformat()}"]
    for project in await stores.all(patterns.projects_in()):
        lines += await _of_project(
            stores, project, [each for each in events if each.project_id == project.id]
        )
    pending = await stores.all(patterns.escalations_in())
    lines += ["", f"Questions that wait for you: {len(pending)}"]
    lines += [f"- {outward_line(each.title)}" for each in list(pending)[:LINES_MAX]]
    held = await stores.all(patterns.held_actions())
    lines += ["", f"Held, to be done unless you stop it: {len(held)}"]
    lines += [
        f"- {described(each.detail or {}) or each.description} (at {each.held_until:%d %B, %H:%M} UTC)"
        for each in list(held)[:LINES_MAX]
    ]
    spent = await budget_state(stores, settings)
    lines += ["", f"Spent today: {spent.spent} of {spent.ceiling} dollars"]
    found = await describe(stores, table)
    items, size = (found.item_count, found.size_bytes) if found is not None else (0, 0)
    lines.append(
        f"Stored: {items} items, {size / 1e6:.1f} MB of {STORED_BYTES_PROJECTED / 1e6:.0f} MB projected"
    )
    return Digest(today, _cut(lines), items, size)


def _cut(lines: Sequence[str]) -> str:
    """As much as fits: an event and a mail hold it whole, and the last lines tell what is stored."""
    text = "\n".join(lines)
    if len(text) <= TEXT_CHARS_MAX:
        return text
    end = "\n".join(lines[-2:])
    return f"{text[: TEXT_CHARS_MAX - len(end)]}\n… cut here: there is more than a mail has room for\n\n{end}"


async def _of_project(stores: Stores, project: Project, events: Sequence[Event]) -> list[str]:
    counts = Counter(each.event_type for each in events)
    state = await stores.run(patterns.artefact(project.id, ArtefactType.delivery_state))
    content = {} if state is None else await artefacts.content_of(stores, state)
    signals = [each for each in events if each.event_type == EventType.signal_detected]
    return [
        "",
        f"{project.name}: {content.get('overall_status', 'not known yet')}",
        *([outward_text(content["status_summary"])] if content.get("status_summary") else []),
        f"{counts[EventType.signal_detected]} signals, {counts[EventType.action_taken]} actions, "
        f"{counts[EventType.error]} errors",
        *(f"- {outward_line(each.summary)}" for each in signals[:LINES_MAX]),
    ]


async def _since(stores: Stores, begin: datetime) -> list[Event]:
    """The feed of all projects, back to a time."""
    found: list[Event] = []
    async for event in stores.each(patterns.recent_events()):
        if event.created_at < begin:
            break
        found.append(event)
    return found


def _writes(stores: Stores, settings: Configs, digest: Digest, site: str | None) -> list[Write[Any]]:
    is_much = digest.bytes > STORED_BYTES_PROJECTED * WARN_FROM
    writes: list[Write[Any]] = [
        *recorded(
            stores,
            None,
            EventType.digest_prepared,
            f"The digest of {digest.day.isoformat()}",
            {"text": digest.text},
        ),
        *recorded(
            stores,
            None,
            EventType.storage_measured,
            f"{digest.items} items, {digest.bytes / 1e6:.1f} MB",
            {"items": digest.items, "bytes": digest.bytes, "projected": STORED_BYTES_PROJECTED},
            severity=Severity.warning if is_much else Severity.info,
        ),
    ]
    if settings.digest_recipients:
        writes += actions.held(
            stores,
            None,
            ActionType.email_sent,
            f"Mail the digest of {digest.day.isoformat()}",
            {
                "kind": MAIL,
                "to": list(settings.digest_recipients),
                "subject": f"Digest of {digest.day.isoformat()}",
                "text": digest.text,
            },
            hold_s=settings.hold_queue_minutes * 60,
            party=site,
        )
    return writes
