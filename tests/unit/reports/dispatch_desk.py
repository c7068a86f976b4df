"""A small system of tables for report tests, with one of everything that derived files must describe.

One table in single-table form (templates, a sparse index, a local index, lifetimes, a stream, recovery), one
with a numeric sort key and its own physical name, and a plain one with an optional index.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from holdfast import (
    Attr,
    Component,
    Delete,
    Document,
    Entity,
    Get,
    IndexKey,
    Key,
    Lifetime,
    Put,
    Query,
    Rate,
    System,
    Table,
    Update,
    attr,
    batch_get,
    batch_put,
    include,
    keep_names,
    pattern,
    transact,
)
from holdfast.model.entities import (
    BatchGet,
    BatchPut,
    CountQuery,
    ParallelQuery,
    Scan,
    SelectQuery,
    Transact,
    parallel_query,
)

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
CALL = Rate(per="call")

desk = Table(
    "Desk",
    partition="PK",
    sort="SK",
    ttl="expiresAt",
    stream="NEW_AND_OLD_IMAGES",
    point_in_time_recovery=True,
    deletion_protection=True,
    purpose="Tickets, and the settings of each desk.",
)
open_tickets = desk.global_index(
    "open-tickets",
    "GSI1PK",
    "GSI1SK",
    projection=include("id", "openedAt"),
    purpose="What is open, oldest first.",
)
by_priority = desk.local_index(
    "by-priority", "priority", sort_type="N", projection=include("title"), purpose="The most urgent."
)
readings = Table(
    "Readings",
    partition="sensor",
    sort="at",
    sort_type="N",
    naming=keep_names,
    physical="{environment}.{name}",
)
agents = Table("Agents", partition="agentId")
by_team = agents.global_index("by-team", "team", default=False, purpose="Who | is in a team.")


class Status(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class Place(Document):
    floor: int = 0


class Ticket(Entity, table=desk):
    desk_id: Attr[str] = attr()
    id: Attr[str] = attr()
    opened_at: Attr[datetime] = attr()
    status: Attr[Status] = attr(default=Status.OPEN)
    priority: Attr[int] = attr(default=3)
    title: Attr[str] = attr(default="")
    places: Attr[list[Place]] = attr(default_factory=list)
    assignee: Attr[str | None] = attr(default=None)
    of = Key("DESK#" + desk_id, "TICKET#" + opened_at + "#" + id)
    open = IndexKey(open_tickets, "OPEN", opened_at + "#" + id, only=status.one_of(Status.OPEN))
    urgent = IndexKey(by_priority, "DESK#" + desk_id, priority)
    lives = Lifetime(opened_at, timedelta(days=90))


class DeskSettings(Entity, table=desk):
    desk_id: Attr[str] = attr()
    greeting: Attr[str] = attr("hello", default="")
    of = Key("SETTINGS", "DESK#" + desk_id)


class Reading(Entity, table=readings):
    sensor: Attr[str] = attr()
    at: Attr[int] = attr()
    value: Attr[int] = attr(default=0)
    of = Key(sensor, at)


class Agent(Entity, table=agents):
    agent_id: Attr[str] = attr()
    team: Attr[str | None] = attr(default=None)
    load: Attr[int] = attr(default=0)
    of = Key(agent_id)
    in_team = IndexKey(by_team, team)


def _make_ticket() -> tuple[Ticket]:
    return (Ticket(desk_id="north", id="t1", opened_at=NOON),)


TICKET_KEY = ("north", NOON, "t1")


@pattern("P1", "One ticket", rate=CALL, example=TICKET_KEY)
def ticket(desk_id: str, opened_at: datetime, id: str) -> Get[Ticket]:
    return Ticket.of(desk_id).get(opened_at, id)


@pattern("P2", "The tickets of a desk since a time", rate=Rate(per="visit", times=2), example=("north", NOON))
def tickets_since(desk_id: str, moment: datetime, after: str | None = None) -> Query[Ticket]:
    return Ticket.of(desk_id).since(moment).after(after)


@pattern("P3", 'What is "open" | oldest first', rate=CALL, example=())
def open_everywhere() -> SelectQuery[Ticket]:
    return Ticket.open().query().select(Ticket.id, Ticket.opened_at)


@pattern("P4", "How many are open", rate=CALL, example=())
def open_count() -> CountQuery[Ticket]:
    return Ticket.open().query().count()


@pattern("P5", "The urgent tickets of several desks", rate=CALL, example=(["north", "south"],))
def urgent(desks: list[str]) -> ParallelQuery[Any]:
    return parallel_query(Ticket.urgent(name).until(1).select(Ticket.title) for name in desks)


@pattern("P6", "A new ticket", rate=CALL, example=_make_ticket)
def create_ticket(new: Ticket) -> Put[Ticket]:
    return Ticket.create(new)


@pattern("P7", "Close a ticket and count it off", rate=CALL, example=(*TICKET_KEY, "ada"))
def close_ticket(desk_id: str, opened_at: datetime, id: str, agent_id: str) -> Transact:
    return transact(
        Ticket.of(desk_id).update(opened_at, id).set(Ticket.status, Status.CLOSED),
        Agent.of(agent_id).update().add(Agent.load, -1),
        DeskSettings.of().check(desk_id),
    )


@pattern("P8", "The settings of a desk", rate=CALL, example=("north",))
def desk_settings(desk_id: str) -> Get[DeskSettings]:
    return DeskSettings.of().get(desk_id)


@pattern("P9", "Change the greeting", rate=CALL, example=("north", "hi"))
def greet(desk_id: str, greeting: str) -> Update[DeskSettings]:
    return DeskSettings.of().update(desk_id).set(DeskSettings.greeting, greeting)


@pattern("P10", "Readings of a sensor", rate=CALL, example=("s1", 1, 2))
def readings_between(sensor: str, low: int, high: int) -> Query[Reading]:
    return Reading.of(sensor).between(low, high).where(Reading.value > 0)


@pattern("P11", "Readings come in", rate=CALL, example=lambda: ([Reading(sensor="s1", at=1)],))
def take_readings(several: list[Reading]) -> BatchPut[Reading]:
    return batch_put(Reading.put(each) for each in several)


@pattern("P12", "Several agents", rate=CALL, example=(["ada", "bo"],))
def several_agents(ids: list[str]) -> BatchGet[Agent]:
    return batch_get(Agent.of(each).get() for each in ids)


@pattern("P13", "The agents of a team", rate=CALL, example=("blue",))
def team(name: str) -> Query[Agent]:
    return Agent.in_team(name).query()


@pattern("P14", "An agent leaves", rate=CALL, example=("ada",))
def remove_agent(agent_id: str) -> Delete[Agent]:
    return Agent.of(agent_id).delete()


@pattern("P15", "All agents, for the yearly count", rate=Rate(per="year"), example=())
def every_agent() -> Scan[Agent]:
    return Agent.scan(reason="once a year")


PATTERNS = (
    ticket,
    tickets_since,
    open_everywhere,
    open_count,
    urgent,
    create_ticket,
    close_ticket,
    desk_settings,
    greet,
    readings_between,
    take_readings,
    several_agents,
    team,
    remove_agent,
    every_agent,
)

SYSTEM = System(
    name="dispatch",
    title="Dispatch desk",
    purpose="Tickets of a dispatch desk, and who works on them.",
    tables=(desk, readings, agents),
    patterns=PATTERNS,
    components=(
        Component(
            "api",
            "Answers people.",
            uses=(ticket, tickets_since, open_count, several_agents, create_ticket, close_ticket),
        ),
        Component("board", "Shows what is open.", uses=(open_everywhere, open_count, urgent)),
        Component("ingest", "Takes what sensors send.", uses=(readings_between, take_readings)),
        Component(
            "office", "Keeps desks and agents.", uses=(desk_settings, team, every_agent, greet, remove_agent)
        ),
        Component("idle", "Touches no table."),
    ),
)
