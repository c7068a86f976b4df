"""The messages of a queue as a page shows them: masked bodies, groups with their heads, dead letters.

The embedded engine shows messages without receiving them. SQS cannot: there, showing them counts as a
receive, so the page asks first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, cast

from holdfast.console.masking import Masker
from holdfast.model.queues import CORRELATION_ATTRIBUTE, Queue
from holdfast.operations.queues import Browse, DiscardMessages, IncomingMessage, Redrive
from holdfast.runtime.stores import Stores
from holdfast.stores.queues.port import Queues

__all__ = [
    "GroupView",
    "MessageView",
    "build_groups",
    "build_message",
    "discard",
    "get_queues",
    "peek",
    "redrive",
]

# The oldest messages, from which groups are counted too.
MAX_MESSAGES: Final = 200


@dataclass(frozen=True)
class MessageView:
    """One message, masked. `is_masked` says whether a user with the role `personal` would see more."""

    id: str
    group: str | None
    receives: int
    age_s: float
    sent_at: float
    died_in: str | None
    correlation_id: str | None
    attributes: tuple[tuple[str, str], ...]
    body: str
    is_masked: bool


@dataclass(frozen=True)
class GroupView:
    """A group of a FIFO queue: its first message holds back the others."""

    group: str
    shown: str
    messages: int
    head: MessageView

    @property
    def is_retrying(self) -> bool:
        """True if the first message was received before: it failed, or is being processed."""
        return self.head.receives > 0


def get_queues(stores: Stores) -> Queues:
    """Return the queues engine."""
    return cast(Queues, stores.engines.get("queues"))


async def peek(stores: Stores, queue: Queue[Any], *, dead: bool) -> tuple[IncomingMessage, ...]:
    """Return the oldest messages of the queue or of its dead-letter queue, at most `MAX_MESSAGES`."""
    name = queue.physical_name(stores.environment, dead_letter=dead)
    return await get_queues(stores).run(Browse(name, MAX_MESSAGES))


async def redrive(
    stores: Stores, queue: Queue[Any], *, id: str | None = None, group: str | None = None
) -> int:
    """Move dead letters back to their queue: one, those of a group, or all. Return how many."""
    source = queue.physical_name(stores.environment, dead_letter=True)
    target = queue.physical_name(stores.environment)
    ids = None if id is None else (id,)
    return await get_queues(stores).run(Redrive(source, target, ids=ids, group=group))


async def discard(stores: Stores, queue: Queue[Any], id: str) -> int:
    """Delete one dead letter. Return how many were deleted, 0 or 1."""
    source = queue.physical_name(stores.environment, dead_letter=True)
    return await get_queues(stores).run(DiscardMessages(source, (id,)))


def build_message(message: IncomingMessage, masker: Masker, now: float) -> MessageView:
    """Return a message with its body and its attributes masked."""
    body = _format_body(message.body)
    shown = _format_body(str(masker.mask("body", message.body)))
    others = {name: each for name, each in message.attributes.items() if name != CORRELATION_ATTRIBUTE}
    attributes = tuple((name, str(masker.mask(name, each))) for name, each in others.items())
    return MessageView(
        message.id,
        None if message.group is None else str(masker.mask("group", message.group)),
        message.receives,
        max(0.0, now - message.sent_at),
        message.sent_at,
        message.died_in,
        message.attributes.get(CORRELATION_ATTRIBUTE),
        attributes,
        shown,
        shown != body or attributes != tuple(others.items()),
    )


def build_groups(messages: Sequence[IncomingMessage], masker: Masker, now: float) -> list[GroupView]:
    """Return the groups of these messages, oldest first, those whose head is being retried before them."""
    by_group: dict[str, list[IncomingMessage]] = {}
    for each in messages:
        by_group.setdefault(each.group or "", []).append(each)
    found = []
    for group, members in by_group.items():
        head = min(members, key=lambda each: (each.sequence or 0, each.sent_at))
        shown = str(masker.mask("group", group))
        found.append(GroupView(group, shown, len(members), build_message(head, masker, now)))
    return sorted(found, key=lambda each: (not each.is_retrying, -each.head.age_s))


def _format_body(body: str) -> str:
    """Return JSON indented, and any other text as it is."""
    with suppress(ValueError, RecursionError):
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    return body
