"""Prompt data for the model: the rules' draft, signals, the current words and the most important tickets.

Each piece is a data block with its source. The size is limited, and the least important data is dropped
first. Mail addresses, phone numbers and order numbers in outside texts are masked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.tickets import Priority, Ticket, TicketStage, Writing
from agenticpm.integrations.claude.wording import WORDINGS
from holdfast.ai import DataBlock
from holdfast.guarantees import redact

MAX_SIGNALS: Final = 30
MAX_TICKETS: Final = 20
MAX_ENTRIES: Final = 40
MAX_DESCRIPTION_CHARS: Final = 600
# Fields of a draft with text from people. Names of entries are not masked: the answer refers to them.
FREE_TEXTS: Final = frozenset(
    "title description detail notes issue mitigation resolution goal suggested_action status_summary "
    "next_actions "
    "scope_notes".split()
)
MAX_CHARS: Final = 40_000


def build_prompt_data(writing: Writing, skeleton: Mapping[str, Any]) -> list[DataBlock]:
    """Build the data blocks of one request.

    `skeleton` is the rules' draft; tickets fill up to `MAX_CHARS`.
    """
    blocks = [DataBlock("the draft by rules", _to_json(_redact_texts(_limit_lists(writing, skeleton))))]
    if lines := [f"{each.severity} {each.kind} {each.summary}" for each in writing.signals[:MAX_SIGNALS]]:
        blocks.append(DataBlock("what stands out", redact("\n".join(lines))))
    if words := _get_current_words(writing):
        blocks.append(DataBlock("the words as they stand", _to_json(_redact_texts(words))))
    room = MAX_CHARS - sum(len(block.text) for block in blocks)
    for ticket in _select_tickets(writing):
        block = DataBlock(f"ticket {ticket.key} of {writing.snapshot.source}", _format_ticket(ticket))
        room -= len(block.text)
        if room < 0:
            break
        blocks.append(block)
    return blocks


def _limit_lists(writing: Writing, skeleton: Mapping[str, Any]) -> dict[str, Any]:
    """Limit every list of the draft to 40 entries.

    In a write-once list, keep only entries the model may write.
    """
    lists = WORDINGS[ArtefactType(writing.type)].lists
    bounded = dict(skeleton)
    for name, value in skeleton.items():
        if not isinstance(value, list):
            continue
        if name in lists and lists[name].write_once:
            value = [each for each in value if lists[name].is_writable(each, name, writing.previous)]
        bounded[name] = value[:MAX_ENTRIES]
    return bounded


def _redact_texts(value: Any, name: str = "") -> Any:
    """Mask personal data in the free texts of a value. `name` is the field it is in."""
    if isinstance(value, dict):
        return {key: _redact_texts(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_redact_texts(each, name) for each in value]
    return redact(value) if isinstance(value, str) and name in FREE_TEXTS else value


def _get_current_words(writing: Writing) -> dict[str, Any]:
    """Return the texts of the previous version that the model may write; the draft has the numbers."""
    previous = writing.previous or {}
    return {name: previous[name] for name in WORDINGS[ArtefactType(writing.type)].texts if previous.get(name)}


def _select_tickets(writing: Writing) -> list[Ticket]:
    """Return the 20 most important tickets: subjects of signals first, then open, begun and urgent ones."""
    named = {each.subject for each in writing.signals}
    urgency = list(Priority)

    def rank(ticket: Ticket) -> tuple[bool, bool, bool, int, str]:
        is_idle = ticket.stage is not TicketStage.in_progress
        return (
            ticket.key not in named,
            ticket.stage is TicketStage.done,
            is_idle,
            urgency.index(ticket.priority),
            ticket.key,
        )

    return sorted(writing.snapshot.tickets.values(), key=rank)[:MAX_TICKETS]


def _format_ticket(ticket: Ticket) -> str:
    """Return a ticket as JSON without empty fields, with free texts masked."""
    fields = {
        "title": redact(ticket.title),
        "status": ticket.status,
        "stage": ticket.stage,
        "priority": ticket.priority,
        "points": ticket.points,
        "assignee": ticket.assignee,
        "sprint": ticket.sprint,
        "milestone": ticket.milestone,
        "due": ticket.due_at and ticket.due_at.date().isoformat(),
        "updated": ticket.updated_at.date().isoformat(),
        "blocked": ticket.is_blocked or None,
        "blocked_reason": redact(ticket.blocked_reason or ""),
        # Mask before truncating: half an address would not be recognized.
        "description": redact(ticket.description[: 4 * MAX_DESCRIPTION_CHARS])[:MAX_DESCRIPTION_CHARS],
    }
    return _to_json({name: value for name, value in fields.items() if value not in (None, "")})


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str, indent=1)
