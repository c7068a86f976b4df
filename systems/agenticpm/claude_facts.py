"""What a model is shown when it writes: the rules' draft, what stands out, the tickets that matter most, the words so far.

All of it is data, each piece in a block with its source. It is bounded, and what is left out is what matters least. Mail
addresses, phone and order numbers in texts of others are masked before anything leaves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from agenticpm.claude_words import WORDS
from agenticpm.contents import ArtefactType
from agenticpm.tickets import Priority, Stage, Ticket, Writing
from holdfast.ai import DataBlock
from holdfast.guarantees import redact

SIGNALS_MAX: Final = 30
TICKETS_MAX: Final = 20
ENTRIES_MAX: Final = 40
DESCRIPTION_CHARS_MAX: Final = 600
# Of a draft, what was written by people, or from what they wrote. Names of entries stay: answers come back by them.
FREE_TEXTS: Final = frozenset(
    "title description detail notes issue mitigation resolution goal suggested_action status_summary next_actions "
    "scope_notes".split()
)
CHARS_MAX: Final = 40_000


def facts(writing: Writing, skeleton: Mapping[str, Any]) -> list[DataBlock]:
    blocks = [DataBlock("the draft by rules", _json(_masked(_bounded(writing, skeleton))))]
    if told := [f"{each.severity} {each.kind} {each.summary}" for each in writing.signals[:SIGNALS_MAX]]:
        blocks.append(DataBlock("what stands out", redact("\n".join(told))))
    if words := _words_so_far(writing):
        blocks.append(DataBlock("the words as they stand", _json(_masked(words))))
    room = CHARS_MAX - sum(len(block.text) for block in blocks)
    for ticket in _first(writing):
        block = DataBlock(f"ticket {ticket.key} of {writing.snapshot.source}", _told(ticket))
        room -= len(block.text)
        if room < 0:
            break
        blocks.append(block)
    return blocks


def _bounded(writing: Writing, skeleton: Mapping[str, Any]) -> dict[str, Any]:
    """The first of every list. Of one whose words are written once, the first of those that have none of the model's."""
    lists = WORDS[ArtefactType(writing.type)].lists
    bounded = dict(skeleton)
    for name, value in skeleton.items():
        if not isinstance(value, list):
            continue
        if name in lists and lists[name].once:
            value = [each for each in value if lists[name].is_open(each, name, writing.previous)]
        bounded[name] = value[:ENTRIES_MAX]
    return bounded


def _masked(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _masked(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_masked(each, name) for each in value]
    return redact(value) if isinstance(value, str) and name in FREE_TEXTS else value


def _words_so_far(writing: Writing) -> dict[str, Any]:
    """Of what was written before, only words: the draft has what counts."""
    previous = writing.previous or {}
    return {name: previous[name] for name in WORDS[ArtefactType(writing.type)].texts if previous.get(name)}


def _first(writing: Writing) -> list[Ticket]:
    """Those that a signal names, then those in work, the most urgent first."""
    named = {each.subject for each in writing.signals}
    urgency = list(Priority)

    def rank(ticket: Ticket) -> tuple[bool, bool, bool, int, str]:
        is_idle = ticket.stage is not Stage.in_progress
        return (
            ticket.key not in named,
            ticket.stage is Stage.done,
            is_idle,
            urgency.index(ticket.priority),
            ticket.key,
        )

    return sorted(writing.snapshot.tickets.values(), key=rank)[:TICKETS_MAX]


def _told(ticket: Ticket) -> str:
    told = {
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
        # Masked before it is cut: half an address would not be known for one.
        "description": redact(ticket.description[: 4 * DESCRIPTION_CHARS_MAX])[:DESCRIPTION_CHARS_MAX],
    }
    return _json({name: value for name, value in told.items() if value not in (None, "")})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str, indent=1)
