"""The memory of an agent: sessions with a lifetime, and their events by time, offered as tools.

Shows that access patterns are the tools: each has a schema, typed arguments, a bounded result and a cost.

    pip install 'holdfast-state[mcp]'
    python agent_memory.py         # lists the tools and calls them
    python agent_memory.py serve   # serves them over standard input and output (Model Context Protocol)
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from holdfast import (
    Attr,
    Component,
    Entity,
    Get,
    Key,
    Lifetime,
    Query,
    Rate,
    Stores,
    System,
    Table,
    Update,
    attr,
    open_stores,
    pattern,
    provision,
)
from holdfast.mcp import build_agent_tools, serve_stdio

TURN = Rate(per="turn")
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
memory = Table("Memory", partition="PK", sort="SK", ttl="expiresAt")


class Session(Entity, table=memory):
    session_id: Attr[str] = attr()
    goal: Attr[str] = attr()
    used_at: Attr[datetime] = attr()

    of = Key("SESSION#" + session_id, "SESSION")
    lives = Lifetime(used_at, timedelta(days=30))  # each use extends it


class Event(Entity, table=memory):
    session_id: Attr[str] = attr()
    at: Attr[datetime] = attr()
    kind: Attr[str] = attr()
    text: Attr[str] = attr()

    of = Key("SESSION#" + session_id, "EVENT#" + at + "#" + kind)
    lives = Lifetime(at, timedelta(days=30))


@pattern(
    "M1", "Begin a session, or continue it", rate=Rate(per="session"), example=("s-1", "Book a trip", NOON)
)
def begin_session(session_id: str, goal: str, now: datetime) -> Update[Session]:
    session = Session.of(session_id).update()
    return session.set(Session.goal, goal).set(Session.used_at, now).or_create()


@pattern("M2", "The goal of a session, and when it was last used", rate=TURN, example=("s-1",))
def get_session(session_id: str) -> Get[Session]:
    return Session.of(session_id).get()


@pattern(
    "M3",
    "Remember an event: a remark, a decision, a result",
    rate=TURN,
    example=("s-1", NOON, "remark", "Hi"),
)
def remember(session_id: str, at: datetime, kind: str, text: str) -> Update[Event]:
    return Event.of(session_id).update(at, kind).set(Event.text, text).or_create()


@pattern("M4", "The events of a session since a time, newest first", rate=TURN, example=("s-1", NOON))
def recall(session_id: str, since: datetime) -> Query[Event]:
    return Event.of(session_id).since(since).descending()


AGENT = Component("agent", "The agent", uses=(get_session, recall, begin_session, remember))
MEMORY = System("memory", "What an agent remembers", tables=(memory,), components=(AGENT,))


async def show(stores: Stores) -> None:
    """List the tools and call them as an agent would: with JSON."""
    tools = {tool.name: tool for tool in build_agent_tools(stores)}
    for tool in tools.values():
        required = ", ".join(tool.input_schema["required"])
        print(f"{tool.name}({required}): {tool.title}{'' if tool.effects.read_only else ' [writes]'}")
    now = datetime.now(UTC)
    await tools["begin_session"].call({"session_id": "s-1", "goal": "Book a trip", "now": now.isoformat()})
    earlier = (await tools["recall"].call({"session_id": "s-1", "since": "2026-01-01T00:00:00Z"}))["count"]
    print(f"{earlier} events from earlier runs")
    for number, text in enumerate(("The user wants a window seat.", "Take the train.")):
        at = (now + timedelta(seconds=number)).isoformat()
        await tools["remember"].call({"session_id": "s-1", "at": at, "kind": "remark", "text": text})
    found = await tools["recall"].call({"session_id": "s-1", "since": now.isoformat(), "limit": 1})
    print(f"newest: {found['items'][0]['text']} ({found['units']} read units)")


async def main(command: str) -> None:
    async with open_stores(MEMORY) as stores:
        await provision(stores, MEMORY)
        await (serve_stdio([stores]) if command == "serve" else show(stores))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "show"))
