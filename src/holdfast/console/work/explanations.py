"""Why something happened: the explanation of one system, or a search over several; ids in it become links.

An id becomes a link where it leads somewhere: to the execution of a flow, to a delayed action, to the outbox
or the queue of a message, or to an explanation of its own. The lookups are bounded.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from holdfast.config.settings import Settings
from holdfast.console.work.declared import build_url, list_actions
from holdfast.console.work.executions import read_executions
from holdfast.console.work.messages import get_queues
from holdfast.core.errors import HoldfastError, InvalidRequest, NotFound, SettingsError
from holdfast.guarantees.delayed_actions.inspection import list_queued
from holdfast.guarantees.idempotency.record import format_key, get_key
from holdfast.model.system import Explanation
from holdfast.operations.queues import Browse
from holdfast.reports.work.explanations import explain
from holdfast.reports.work.outboxes import may_have_messages
from holdfast.runtime.stores import Stores

__all__ = ["Piece", "Search", "find_links", "list_candidates", "search", "split_line"]

# Ids that are looked up as an explanation of their own, and messages read to find one.
MAX_EXPLAINED: Final = 8
MAX_CANDIDATES: Final = 200
MAX_MESSAGES: Final = 100
MIN_ID_CHARS: Final = 3
_ID: Final = re.compile(
    r"\b(?:[0-7][0-9A-HJKMNP-TV-Z]{25}"  # a ULID
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b",  # a UUID
    re.IGNORECASE,
)
_ID_NAME: Final = re.compile(r"(?:^|_)(?:ids?|key|reference|correlation)$|(?:Id|Ids|Key)$")


@dataclass(frozen=True)
class Piece:
    """A part of a line: text, with the address that it leads to."""

    text: str
    url: str | None = None


@dataclass(frozen=True)
class Search:
    """The result of a search: which systems know the id, and which could not answer, and why."""

    known_by: tuple[str, ...]
    failures: tuple[tuple[str, str], ...]


async def search(systems: Mapping[str, Stores], id: str) -> Search:
    """Ask every system that explains itself about the id."""
    asked = [name for name, each in systems.items() if each.system is not None and each.system.admin.why]
    answers = await asyncio.gather(*(_knows(systems[name], id) for name in asked))
    known = tuple(name for name, answer in zip(asked, answers, strict=True) if answer is True)
    failures = tuple(
        (name, answer) for name, answer in zip(asked, answers, strict=True) if isinstance(answer, str)
    )
    return Search(known, failures)


async def _knows(stores: Stores, id: str) -> bool | str:
    """Return whether the system explains the id, or the text of the failure to read."""
    try:
        await explain(stores, id)
    except (NotFound, InvalidRequest, SettingsError):
        return False
    except HoldfastError as error:
        return error.message
    return True


def list_candidates(explanation: Explanation, id: str) -> list[str]:
    """Return what may be an id: values of fields that are named so, and ULIDs and UUIDs in the lines."""
    text = "\n".join(explanation.lines)
    named = [each for each in _find_ids(explanation.data) if each in text]
    written = [match.group() for match in _ID.finditer(text)]
    return [each for each in dict.fromkeys((*named, *written)) if each != id][:MAX_CANDIDATES]


async def find_links(
    stores: Stores, settings: Settings, id: str, candidates: Sequence[str]
) -> dict[str, str]:
    """Return the addresses of those candidates that lead somewhere, and of the explained id if it does."""
    wanted = {id, *candidates}
    parts = (_find_executions, _find_actions, _find_unsent, _find_messages)
    found: dict[str, str] = {}
    for links in await asyncio.gather(*(_try(part(stores, settings)) for part in parts)):
        found |= {id: url for id, url in links.items() if id in wanted and id not in found}
    rest = [each for each in candidates if each not in found][:MAX_EXPLAINED]
    answers = await asyncio.gather(*(_knows(stores, each) for each in rest))
    known = [each for each, answer in zip(rest, answers, strict=True) if answer is True]
    return found | {each: build_url("why", _name(stores), each) for each in known}


def split_line(line: str, links: Mapping[str, str]) -> list[Piece]:
    """Return the line in pieces, those that are linked with their addresses."""
    if not links:
        return [Piece(line)]
    longest_first = sorted(links, key=len, reverse=True)
    pattern = re.compile(f"(?<![\\w-])({'|'.join(map(re.escape, longest_first))})(?![\\w-])")
    pieces = [Piece(part, links.get(part)) for part in pattern.split(line) if part]
    return pieces or [Piece(line)]


# --- where ids lead -----------------------------------------------------------------------------------------


async def _try(read: Any) -> dict[str, str]:
    """Return the links of one kind; none if they cannot be read."""
    with suppress(HoldfastError):
        links: dict[str, str] = await read
        return links
    return {}


async def _find_executions(stores: Stores, settings: Settings) -> dict[str, str]:
    """Return the keys of running executions, and the parts of longer keys."""
    links: dict[str, str] = {}
    for flow in stores.system.flows if stores.system else ():
        for each in (await read_executions(stores, flow)).executions:
            url = build_url("flows", _name(stores), flow.name, "items", each.key)
            # The last part of a key names the item; the first may be shared by several.
            links |= {each.key: url, each.key.rpartition("#")[2]: url}
    return links


async def _find_actions(stores: Stores, settings: Settings) -> dict[str, str]:
    links: dict[str, str] = {}
    for actions in list_actions(stores.system) if stores.system else ():
        for each in await list_queued(actions, stores):
            url = build_url("actions", _name(stores), actions.name, format_key(each))
            links |= {format_key(each): url, getattr(each, "id", ""): url}
            links |= {str(value).rpartition("#")[2]: url for value in list(get_key(each).values())[-1:]}
    return links


async def _find_unsent(stores: Stores, settings: Settings) -> dict[str, str]:
    links: dict[str, str] = {}
    for outbox in stores.system.outboxes if stores.system else ():
        if may_have_messages(outbox, settings):
            url = build_url("outbox", _name(stores), outbox.name)
            links |= {each.id: url for each in await outbox.list_unsent(stores)}
    return links


async def _find_messages(stores: Stores, settings: Settings) -> dict[str, str]:
    """Return the ids of the oldest messages, where the engine shows them without receiving them."""
    links: dict[str, str] = {}
    queues = stores.system.queues if stores.system else ()
    if not queues or not get_queues(stores).can_peek:
        return links
    for queue in queues:
        for dead in (False, True)[: 1 if queue.max_receives is None else 2]:
            name = queue.physical_name(stores.environment, dead_letter=dead)
            with suppress(NotFound):
                found = await get_queues(stores).run(Browse(name, MAX_MESSAGES))
                url = build_url("queues", _name(stores), queue.name) + ("/dead" if dead else "")
                links |= {each.id: f"{url}#m-{each.id}" for each in found}
    return links


def _find_ids(data: Any, name: str = "") -> Iterator[str]:
    """Yield the texts in data under names such as `id`, `booking_id` and `taskId`."""
    if isinstance(data, Mapping):
        for inner, each in data.items():
            yield from _find_ids(each, str(inner))
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes):
        for each in data:
            yield from _find_ids(each, name)
    elif hasattr(data, "model_dump"):
        yield from _find_ids(data.model_dump(mode="json"), name)
    elif isinstance(data, str) and len(data) >= MIN_ID_CHARS and _ID_NAME.search(name):
        yield data


def _name(stores: Stores) -> str:
    assert stores.system is not None
    return stores.system.name
