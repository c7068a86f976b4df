"""The daily digest: summarize the day and measure the storage size, once a day, and hold the mail with it.

The digest and the measurement are committed in one transaction with the record of the day, so each day has
one. The mail, if there are recipients, is held like every outgoing action. Nothing is deleted here: item
lifetimes do that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from agenticpm.domain.addresses import sanitize_line, sanitize_text
from agenticpm.domain.autonomy import MAIL, describe_action
from agenticpm.domain.contents import ArtefactType
from agenticpm.model import agent_settings, artefacts, integration_settings, patterns
from agenticpm.model.agent_settings import AgentSettings
from agenticpm.model.budget import load_state as budget_state
from agenticpm.model.entities import (
    ActionType,
    AgentConfig,
    Event,
    EventType,
    Integration,
    Project,
    Severity,
    table,
)
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.model.transactions import CONFLICTS, commit
from agenticpm.workers import actions
from holdfast import Stores, Write
from holdfast.runtime import describe_table

DIGEST: Final = "digest"
# The document's projection of the stored bytes (section 4.3), and the share of it that triggers a warning.
STORED_BYTES_PROJECTED: Final = 120_000_000
WARN_FROM: Final = 0.8
MAX_LINES: Final = 20
MAX_TEXT_CHARS: Final = 50_000


@dataclass(frozen=True)
class Digest:
    """The text of a day's digest, and the storage size."""

    day: date
    text: str
    items: int
    bytes: int


async def make_daily_digest(stores: Stores) -> Digest | None:
    """Make and commit the digest of the day, once per day within working hours.

    Return None outside working hours, or if the day has one already.
    """
    settings = await agent_settings.load(stores)
    now = get_now(stores.clock)
    if not agent_settings.is_working_hours(settings, now):
        return None
    today = now.astimezone(agent_settings.get_zone(settings.working_hours.timezone)).date()
    seen = await stores.run(patterns.agent_config(DIGEST))
    if seen is not None and isinstance(seen.value, dict) and seen.value.get("date") == today.isoformat():
        return None
    since = now - timedelta(days=1) if seen is None else seen.updated_at
    digest = await build_digest(stores, settings, today, since)
    mark = AgentConfig(key=DIGEST, value={"date": today.isoformat()}, updated_at=now)
    site = await integration_settings.get_current_site(stores, Integration.resend)
    writes = _build_writes(stores, settings, digest, site)
    try:
        await commit(stores, patterns.put_record(mark, seen), *writes, what="The digest")
    except CONFLICTS:
        return None  # another instance made it
    return digest


async def build_digest(stores: Stores, settings: AgentSettings, today: date, since: datetime) -> Digest:
    """Build the digest of everything since the previous one, by project, within the size of a mail.

    `since` is the time of the previous one.
    """
    events = await _load_events_since(stores, since)
    lines = [f"Digest of {today.isoformat()}"]
    for project in await stores.all(patterns.projects_in()):
        lines += await _build_project_lines(
            stores, project, [each for each in events if each.project_id == project.id]
        )
    pending = await stores.all(patterns.escalations_in())
    lines += ["", f"Pending questions: {len(pending)}"]
    lines += [f"- {sanitize_line(each.title)}" for each in list(pending)[:MAX_LINES]]
    held = await stores.all(patterns.held_actions())
    lines += ["", f"Held actions, executed unless you cancel them: {len(held)}"]
    lines += [
        f"- {describe_action(each.detail or {}) or each.description} (at {each.held_until:%d %B, %H:%M} UTC)"
        for each in list(held)[:MAX_LINES]
    ]
    spent = await budget_state(stores, settings)
    lines += ["", f"Spent today: {spent.spent} of {spent.ceiling} dollars"]
    found = await describe_table(stores, table)
    items, size = (found.item_count, found.size_bytes) if found is not None else (0, 0)
    lines.append(
        f"Stored: {items} items, {size / 1e6:.1f} MB of {STORED_BYTES_PROJECTED / 1e6:.0f} MB projected"
    )
    return Digest(today, _truncate(lines), items, size)


def _truncate(lines: Sequence[str]) -> str:
    """Join the lines and truncate to the size of an event and a mail, keeping the last two lines."""
    text = "\n".join(lines)
    if len(text) <= MAX_TEXT_CHARS:
        return text
    end = "\n".join(lines[-2:])
    return f"{text[: MAX_TEXT_CHARS - len(end)]}\n… truncated: the digest is longer than a mail\n\n{end}"


async def _build_project_lines(stores: Stores, project: Project, events: Sequence[Event]) -> list[str]:
    """Build the lines of one project from its delivery state and its events since the last digest."""
    counts = Counter(each.event_type for each in events)
    state = await stores.run(patterns.artefact(project.id, ArtefactType.delivery_state))
    content = {} if state is None else await artefacts.load_content(stores, state)
    signals = [each for each in events if each.event_type == EventType.signal_detected]
    return [
        "",
        f"{project.name}: {content.get('overall_status', 'not known yet')}",
        *([sanitize_text(content["status_summary"])] if content.get("status_summary") else []),
        f"{counts[EventType.signal_detected]} signals, {counts[EventType.action_taken]} actions, "
        f"{counts[EventType.error]} errors",
        *(f"- {sanitize_line(each.summary)}" for each in signals[:MAX_LINES]),
    ]


async def _load_events_since(stores: Stores, begin: datetime) -> list[Event]:
    """Load the events of all projects from `begin` on, newest first."""
    found: list[Event] = []
    async for event in stores.each(patterns.recent_events()):
        if event.created_at < begin:
            break
        found.append(event)
    return found


def _build_writes(
    stores: Stores, settings: AgentSettings, digest: Digest, site: str | None
) -> list[Write[Any]]:
    """Build the events of the digest and of the measurement, and the held mail if there are recipients."""
    is_large = digest.bytes > STORED_BYTES_PROJECTED * WARN_FROM
    writes: list[Write[Any]] = [
        *build_event_writes(
            stores,
            None,
            EventType.digest_prepared,
            f"The digest of {digest.day.isoformat()}",
            {"text": digest.text},
        ),
        *build_event_writes(
            stores,
            None,
            EventType.storage_measured,
            f"{digest.items} items, {digest.bytes / 1e6:.1f} MB",
            {"items": digest.items, "bytes": digest.bytes, "projected": STORED_BYTES_PROJECTED},
            severity=Severity.warning if is_large else Severity.info,
        ),
    ]
    if settings.digest_recipients:
        writes += actions.build_hold(
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
            site=site,
        )
    return writes
