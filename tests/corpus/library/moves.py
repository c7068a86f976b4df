"""Part of the corpus: live table migrations that were killed in the copy and in the switch."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from holdfast import (
    Attr,
    Entity,
    Get,
    Key,
    Put,
    Rate,
    Stores,
    Table,
    Update,
    attr,
    batch_put,
    pattern,
    transact,
)
from holdfast.guarantees import MIGRATIONS, Migration, MigrationState, fence, get_migration_state, lift_hold
from holdfast.guarantees.table_migration import MigrationStep, Pace, Phase, migrate

from .process import Killed, make_dying_process

ROWS: Final = 40
# Small, so that the copy of a few rows takes several rounds.
PACE: Final = Pace(lease_s=15, hold_s=30, segments=2, batch_size=5)

cards = Table("Cards", "number", purpose="Cards by their number, to be moved")
cards_by_reader = Table("CardsByReader", "reader", "number", purpose="Cards by their reader")
desks = Table("Desks", "number", purpose="Desks by their number, moved")
desks_by_room = Table("DesksByRoom", "room", "number", purpose="Desks by their room")
seats = Table("Seats", "number", purpose="Seats by their number, to be moved")
seats_by_row = Table("SeatsByRow", "row", "number", purpose="Seats by their row")


class Card(Entity, table=cards):
    number: Attr[str] = attr()
    reader: Attr[str] = attr()
    version: Attr[int] = attr(default=1)

    of = Key(number)


class CardOfReader(Entity, table=cards_by_reader):
    reader: Attr[str] = attr()
    number: Attr[str] = attr()
    version: Attr[int] = attr(default=1)

    of = Key(reader, number)


class Seat(Entity, table=seats):
    number: Attr[str] = attr()
    row: Attr[str] = attr()
    version: Attr[int] = attr(default=1)

    of = Key(number)


class SeatOfRow(Entity, table=seats_by_row):
    row: Attr[str] = attr()
    number: Attr[str] = attr()
    version: Attr[int] = attr(default=1)

    of = Key(row, number)


class Desk(Entity, table=desks):
    number: Attr[str] = attr()
    room: Attr[str] = attr()
    version: Attr[int] = attr(default=1)

    of = Key(number)


class DeskOfRoom(Entity, table=desks_by_room):
    room: Attr[str] = attr()
    number: Attr[str] = attr()
    version: Attr[int] = attr(default=1)

    of = Key(room, number)


EXAMPLE: Final = MigrationState(
    migration="cards-by-reader",
    phase=Phase.PREPARED,
    started_at="2026-02-04T12:00:00Z",  # type: ignore[arg-type]
    changed_at="2026-02-04T12:00:00Z",  # type: ignore[arg-type]
)


@pattern("MO1", "How far the move of the cards is", rate=Rate("change"), example=())
def cards_move() -> Get[MigrationState]:
    return get_migration_state("cards-by-reader")


@pattern("MO2", "How far the move of the seats is", rate=Rate("change"), example=())
def seats_move() -> Get[MigrationState]:
    return get_migration_state("seats-by-row")


@pattern("MO4", "How far the move of the desks is", rate=Rate("change"), example=())
def desks_move() -> Get[MigrationState]:
    return get_migration_state("desks-by-room")


@pattern("MO3", "End a hold that lasts too long", rate=Rate("change"), example=(EXAMPLE,))
def lift(state: MigrationState) -> Put[MigrationState]:
    return lift_hold(state)


def build_card_of_reader(card: Card) -> CardOfReader:
    return CardOfReader(reader=card.reader, number=card.number, version=card.version)


def build_seat_of_row(seat: Seat) -> SeatOfRow:
    return SeatOfRow(row=seat.row, number=seat.number, version=seat.version)


def build_desk_of_room(desk: Desk) -> DeskOfRoom:
    return DeskOfRoom(room=desk.room, number=desk.number, version=desk.version)


CARDS: Final = Migration(
    "cards-by-reader",
    Card,
    CardOfReader,
    build_card_of_reader,
    version=Card.version,
    state=cards_move,
    lift_hold=lift,
)
SEATS: Final = Migration(
    "seats-by-row", Seat, SeatOfRow, build_seat_of_row, version=Seat.version, state=seats_move, lift_hold=lift
)
DESKS: Final = Migration(
    "desks-by-room",
    Desk,
    DeskOfRoom,
    build_desk_of_room,
    version=Desk.version,
    state=desks_move,
    lift_hold=lift,
)

TABLES: Final = (cards, seats, desks, MIGRATIONS)
# Created by their migrations.
TARGETS: Final = (cards_by_reader, seats_by_row, desks_by_room)
PATTERNS: Final = (cards_move, seats_move, desks_move, lift)


def raise_version(number: str) -> Update[Card]:
    return Card.of(number).update().add(Card.version, 1)


async def write(stores: Stores) -> dict[str, Any]:
    """Fill the tables, finish one migration, kill two, and write more changes; return how many rows are
    copied.
    """
    numbers = range(ROWS)
    await stores.run(batch_put([Card.put(Card(number=f"c-{n:02}", reader=f"r-{n % 3}")) for n in numbers]))
    await stores.run(batch_put([Seat.put(Seat(number=f"s-{n:02}", row=f"r-{n % 3}")) for n in numbers]))
    await stores.run(batch_put([Desk.put(Desk(number=f"d-{n}", room=f"r-{n % 2}")) for n in range(4)]))
    await migrate(DESKS, stores, pace=PACE)
    await _die_in_the_copy(stores)
    await _die_in_the_switch(stores)
    # Changes in the stream that the migration has not copied yet.
    await stores.run(transact(fence(CARDS.name), raise_version("c-00")))
    await stores.run(transact(fence(CARDS.name), Card.put(Card(number="c-new", reader="r-1"))))
    await stores.run(transact(fence(CARDS.name), Card.of("c-39").delete()))
    states = {each.migration: each for each in await stores.all(_scan_states())}
    assert states[CARDS.name].phase is Phase.PREPARED
    assert states[SEATS.name].phase is Phase.SWITCHING
    copied = await stores.all(CardOfReader.scan(reason="the notes of the corpus"))
    assert 0 < len(copied) < ROWS
    return {"copied": len(copied)}


def _scan_states() -> Any:
    return MigrationState.scan(reason="the notes of the corpus")


async def _die_in_the_copy(stores: Stores) -> None:
    """Run a migration that is killed half-way through the copy."""
    dying, tables = make_dying_process(stores)

    def kill_half_way(step: str, done: int, total: int | None) -> None:
        if step == "backfill" and done >= ROWS / 2:
            tables.kill()

    with suppress(Killed):
        await migrate(CARDS, dying, pace=PACE, progress=kill_half_way)


async def _die_in_the_switch(stores: Stores) -> None:
    """Run a migration that is killed in the switch, while it holds writes back."""
    dying, tables = make_dying_process(stores)

    def kill_after_the_hold(step: str, done: int, total: int | None) -> None:
        if step == "switch":
            tables.requests_left = 1

    await migrate(SEATS, stores, until=MigrationStep.VERIFY, pace=PACE)
    with suppress(Killed):
        await migrate(SEATS, dying, pace=PACE, progress=kill_after_the_hold)
