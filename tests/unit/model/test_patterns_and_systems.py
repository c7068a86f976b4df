"""Access patterns, systems and components in memory: calls, declarations, and limits of components."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import (
    Attr,
    Component,
    Consumer,
    Entity,
    Get,
    Key,
    Load,
    Put,
    Query,
    Queue,
    Rate,
    ReceivedMessage,
    Stores,
    System,
    Table,
    Update,
    Volume,
    Write,
    attr,
    batch_get,
    batch_put,
    open_memory_stores,
    open_stores,
    pattern,
    transact,
)
from holdfast.config.settings import Settings
from holdfast.core.errors import ComponentRefused, DeclarationError, InvalidRequest, NotFound
from holdfast.model.components import Handler
from holdfast.model.entities import (
    BatchGet,
    ConditionCheck,
    CountQuery,
    ParallelQuery,
    Transact,
    parallel_query,
)
from holdfast.model.system import collect_patterns, load_system
from holdfast.model.ulids import Ulid
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.runtime import create_tables
from tests.unit.model.blocking_stores import BlockingStores, open_blocking_stores


class Cabin(StrEnum):
    economy = "Y"
    business = "J"


seats = Table("Seats", partition="flight", sort="seat")


class Seat(Entity, table=seats):
    flight: Attr[str] = attr()
    seat: Attr[str] = attr()
    cabin: Attr[Cabin] = attr(default=Cabin.economy)
    taken_by: Attr[str | None] = attr(default=None)
    taken_at: Attr[datetime | None] = attr(default=None)

    of = Key(flight, seat)


RATE = Rate(per="request")
NOON = datetime(2026, 2, 4, 12, tzinfo=UTC)


@pattern("S1", "One seat", rate=RATE, example=("EY11", "7A"))
def seat(flight: str, seat: str) -> Get[Seat]:
    """Read one seat."""
    return Seat.of(flight).get(seat)


@pattern("S2", "Seats in a cabin", rate=RATE, example={"flight": "EY11", "cabin": Cabin.business})
def seats_in(flight: str, cabin: Cabin = Cabin.economy, limit: int = 20) -> Query[Seat]:
    return Seat.of(flight).query().where(Seat.cabin == cabin).page(limit)


@pattern(
    "S3", "Take a seat", rate=Rate(per="request", times=0.5), example=lambda: ("EY11", "7A", "Ada", NOON)
)
def take(flight: str, seat: str, who: str, when: datetime) -> Update[Seat]:
    change = Seat.of(flight).update(seat).set(Seat.taken_by, who).set(Seat.taken_at, when)
    return change.when(Seat.taken_by.not_exists())


@pattern("S4", "A new seat", rate=RATE, example=lambda: (Seat(flight="EY11", seat="7A"),))
def new_seat(seat: Seat) -> Put[Seat]:
    return Seat.put(seat)


@pattern("S5", "How many seats", rate=RATE, example=("EY11",))
def seat_count(flight: str) -> CountQuery[Seat]:
    return Seat.of(flight).query().count()


@pattern("S6", "Several seats", rate=RATE, example=("EY11", ["7A"]))
def several(flight: str, named: list[str]) -> BatchGet[Seat]:
    return batch_get(Seat.of(flight).get(name) for name in named)


@pattern("S7", "Seats of several flights", rate=RATE, example=(["EY11"],))
def of_flights(flights: list[str]) -> ParallelQuery[Seat]:
    return parallel_query(Seat.of(flight).query() for flight in flights)


@pattern("S8", "Swap two seats", rate=RATE, example=("EY11", "7A", "7B"))
def swap(flight: str, one: str, other: str) -> Transact:
    return transact(
        Seat.of(flight).update(one).set(Seat.taken_by, other),
        Seat.of(flight).update(other).set(Seat.taken_by, one),
    )


PATTERNS = (seat, seats_in, take, new_seat, seat_count, several, of_flights, swap)


class Parcel(BaseModel):
    id: str


async def ignore(_: ReceivedMessage[Any]) -> None: ...


@asynccontextmanager
async def open_handler(_: Stores) -> AsyncIterator[Handler]:
    yield ignore


READER = Component("reader", uses=(seat, seats_in, seat_count, several, of_flights))
WRITER = Component("writer", uses=(seat, take, swap, new_seat))
seat_again = pattern("S1", "One seat", rate=RATE, example=("EY11", "7A"))(seat.function)
CABIN = System("cabin", "Seats", tables=(seats,), patterns=PATTERNS, components=(READER, WRITER))


def test_an_operation_carries_the_id_of_its_pattern() -> None:
    for each in PATTERNS:
        assert each.build_example().pattern == each.id


def test_pattern_describes_itself() -> None:
    assert (seat.id, seat.name, seat.purpose, str(take.rate)) == (
        "S1",
        "seat",
        "One seat",
        "0.5 × per request",
    )
    assert seat.__doc__ == "Read one seat."
    assert repr(seat) == "Pattern('S1', seat)"


def test_example_may_be_positional_named_or_lazy() -> None:
    assert seat.build_example() == seat("EY11", "7A")
    assert seats_in.build_example() == seats_in("EY11", Cabin.business)
    assert take.build_example() == take("EY11", "7A", "Ada", NOON)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda wrong: wrong(),
            r"Invalid call of pattern S1: missing a required argument: 'flight'. Expected seat\(flight: .*, "
            r"seat: ",
        ),
        (lambda wrong: wrong("EY11", "7A", "x"), "too many positional arguments"),
        (lambda wrong: wrong("EY11", seta="7A"), "missing a required argument: 'seat'"),
    ],
)
def test_invalid_call_of_a_pattern_shows_its_signature(call: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        call(seat)


def test_an_error_inside_a_pattern_is_not_taken_for_a_wrong_call() -> None:
    @pattern("X", "Fails", rate=RATE)
    def fails() -> Get[Seat]:
        raise TypeError("its own")

    with pytest.raises(TypeError, match="its own"):
        fails()


def test_a_pattern_that_returns_no_operation_is_refused() -> None:
    wrong: Any = pattern("X", "Nothing", rate=RATE)
    with pytest.raises(
        DeclarationError, match=r"Invalid result of pattern X \(<lambda>\): expected one operation, got 7"
    ):
        wrong(lambda: 7)()


def test_pattern_call_rejects_an_invalid_update() -> None:
    @pattern("X", "Renames a seat", rate=RATE)
    def rename(flight: str, old: str, new: str) -> Update[Seat]:
        return Seat.of(flight).update(old).set(Seat.seat, new)

    with pytest.raises(InvalidRequest, match="Invalid change of seat: it is part of the primary key"):
        rename("EY11", "7A", "7B")


def test_plain_arguments_are_converted_by_the_declared_types() -> None:
    assert seats_in.call_with_json({"flight": "EY11", "cabin": "J"}) == seats_in("EY11", Cabin.business)
    when = "2026-02-04T13:00:00+01:00"
    made = take.call_with_json({"flight": "EY11", "seat": "7A", "who": "Ada", "when": when})
    assert made.build_request(str).update == take("EY11", "7A", "Ada", NOON).build_request(str).update
    assert new_seat.call_with_json({"seat": {"flight": "EY11", "seat": "7A", "cabin": "J"}}) == new_seat(
        Seat(flight="EY11", seat="7A", cabin=Cabin.business)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "flight: Field required"),
        ({"flight": "EY11", "cabin": "Z"}, "cabin: Input should be 'Y' or 'J'"),
        ({"flight": "EY11", "colour": "red"}, "colour: Extra inputs are not permitted"),
        ({"flight": "EY11", "limit": "many"}, "limit: Input should be a valid integer"),
        ({"flight": "EY11", "limit": 0}, "Invalid page size 0"),
    ],
)
def test_plain_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        seats_in.call_with_json(arguments)


def test_arguments_have_a_json_schema_whatever_they_are_called() -> None:
    @pattern("X", "Odd names", rate=RATE)
    def odd(model_id: Ulid, id: str) -> Get[Seat]:
        return Seat.of(id).get(model_id)

    schema = odd.arguments_model.model_json_schema()
    assert list(schema["properties"]) == ["model_id", "id"]
    with pytest.raises(InvalidRequest, match="model_id: String should match pattern"):
        odd.call_with_json({"model_id": "x", "id": "y"})


def test_the_patterns_of_a_module_are_found_in_their_order() -> None:
    module = types.SimpleNamespace(seat=seat, x=1, take=take)

    assert collect_patterns(module) == (seat, take)


# --- systems ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"patterns": (seat, seat_again)}, "cabin declares two patterns named S1"),
        ({"tables": (seats, Table("Seats", partition="x"))}, "cabin declares two tables named Seats"),
        ({"components": (READER, READER)}, "cabin declares two components named reader"),
    ],
)
def test_rejects_an_inconsistent_system(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        System(**{"name": "cabin", "purpose": "Seats", "tables": (seats,), "patterns": PATTERNS, **parts})


def test_system_collects_what_its_components_name() -> None:
    steps = Queue("steps", Parcel)

    class Outbox:
        patterns = (take, new_seat)

    class Publisher:
        patterns = (take,)
        outboxes = (Outbox,)

    class Flow:
        patterns = (swap,)
        outbox = "the outbox of the flow"

        @property
        def flows(self) -> tuple[Flow, ...]:
            return (self,)

    uses = (Publisher(), flow := Flow(), (seat, take))
    worker = Component("worker", uses=uses, consumers=(Consumer(steps, open_handler),))
    system = System("cabin", "Seats", tables=(seats,), components=(worker, READER), patterns=(several,))

    assert worker.patterns == (take, swap, seat, *steps.consumer.patterns)
    assert set(system.patterns) == {*worker.patterns, *READER.patterns, new_seat}
    assert system.patterns[:4] == (several, take, swap, seat)
    assert (system.queues, system.flows) == ((steps,), (flow,))
    assert system.outboxes == (Outbox, "the outbox of the flow")


def test_not_found_error_lists_the_alternatives() -> None:
    with pytest.raises(NotFound, match="cabin has no component 'x': it has reader, writer"):
        CABIN.get_component("x")
    with pytest.raises(NotFound, match="cabin has no pattern 'x'"):
        CABIN.get_pattern("x")
    with pytest.raises(NotFound, match="cabin has no table 'x': it has Seats"):
        CABIN.get_table("x")
    with pytest.raises(NotFound, match="System 'no-such-system' is not installed"):
        load_system("no-such-system")


def test_a_pattern_is_found_by_its_id_and_by_its_name() -> None:
    assert CABIN.get_pattern("S3") is take is CABIN.get_pattern("take")
    assert CABIN.find_components(seat) == (READER, WRITER)


def test_hottest_key_has_an_even_share_by_default() -> None:
    assert Volume(1000, distinct_keys=4).hottest_share == 0.25
    assert Volume(1000, distinct_keys=4, hottest=0.9).hottest_share == 0.9
    assert Load().peak_factor == 1.0


# --- components ---------------------------------------------------------------------------------------------


@pytest.fixture
def stores() -> Iterator[BlockingStores]:
    with open_blocking_stores(seats, system=CABIN) as opened:
        yield opened


def test_a_component_runs_the_patterns_it_declares(stores: BlockingStores) -> None:
    writer = BlockingStores(stores.stores.for_component("writer"))
    reader = BlockingStores(stores.stores.for_component("reader"))
    writer.run(new_seat(Seat(flight="EY11", seat="7A")))
    writer.run(new_seat(Seat(flight="EY11", seat="7B")))
    writer.run(swap("EY11", "7A", "7B"))

    assert reader.run(seat_count("EY11")).count == 2
    assert len(reader.all(seats_in("EY11"))) == len(reader.each(seats_in("EY11"))) == 2
    assert [each and each.taken_by for each in reader.run(several("EY11", ["7A"]))] == ["7B"]
    assert len(reader.run(of_flights(["EY11"]))[0]) == 2
    assert writer.stores.component == "writer"


def test_combined_operations_are_allowed_when_their_parts_are(stores: BlockingStores) -> None:
    writer = BlockingStores(stores.stores.for_component("writer"))
    reader = BlockingStores(stores.stores.for_component("reader"))
    writer.run(batch_put(new_seat(Seat(flight="EY11", seat=name)) for name in ("7A", "7B")))

    assert reader.run(seats_in("EY11").count()).count == 2
    assert len(reader.run(seats_in("EY11").select(Seat.seat).page(1))) == 1
    assert len(reader.run(batch_get([seat("EY11", "7A"), seat("EY11", "7B")]))) == 2
    assert [len(page) for page in reader.run(parallel_query([seats_in("EY11"), seats_in("EY12")]))] == [2, 0]
    assert reader.run(batch_get([])) == ()
    writer.run(transact(take("EY11", "7A", "Ada", NOON), new_seat(Seat(flight="EY11", seat="7C"))))


def test_combined_operation_with_an_undeclared_part_is_refused(stores: BlockingStores) -> None:
    writer = BlockingStores(stores.stores.for_component("writer"))
    for refused in (
        seats_in("EY11").count(),
        batch_get([seat("EY11", "7A"), Seat.of("EY11").get("7B")]),
        parallel_query([seats_in("EY11")]),
        batch_put([new_seat(Seat(flight="EY11", seat="7A")), Seat.put(Seat(flight="EY11", seat="7B"))]),
    ):
        with pytest.raises(ComponentRefused):
            writer.run(refused)
    reader = BlockingStores(stores.stores.for_component("reader"))
    with pytest.raises(ComponentRefused, match="the pattern S4"):
        reader.run(batch_put([new_seat(Seat(flight="EY11", seat="7A"))]))


def test_combined_operation_is_metered_under_its_parts(stores: BlockingStores) -> None:
    seen: list[str | None] = []
    stores.stores.observe(lambda usage: seen.append(usage.pattern))
    for operation in (
        seats_in("EY11").count(),
        batch_get([seat("EY11", "7A"), seat("EY11", "7B")]),
        parallel_query([seats_in("EY11"), seats_in("EY12").with_pattern("S9")]),
        transact(new_seat(Seat(flight="EY11", seat="7A")), new_seat(Seat(flight="EY11", seat="7B"))),
        transact(take("EY11", "7A", "Ada", NOON), new_seat(Seat(flight="EY11", seat="7C"))),
        batch_get([Seat.of("EY11").get("7A")]),
    ):
        stores.run(operation)

    assert seen == ["S2", "S1", "S2", "S9", "S4", "S3+S4", None]


def test_missing_index_error_says_how_to_add_it() -> None:
    later = seats.global_index("by-name", "takenBy", default=False)
    try:
        condition = (KeyTest("takenBy", "=", ("Ada",)),)
        query = replace(Seat.of("EY11").query(), read_index=later, key_condition=condition)
        with open_blocking_stores(seats, system=CABIN) as stores, pytest.raises(InvalidRequest) as refused:
            stores.run(query)
    finally:
        seats.indexes.remove(later)

    assert refused.value.message == "The table does not have the specified index: by-name"
    (note,) = refused.value.__notes__
    assert "`holdfast indexes add cabin --index by-name` adds it" in note


def test_a_component_is_refused_another_pattern_and_both_are_named(stores: BlockingStores) -> None:
    reader = BlockingStores(stores.stores.for_component("reader"))
    with pytest.raises(
        ComponentRefused, match="The component reader may not run the pattern S3: it declares S1, S2"
    ):
        reader.run(take("EY11", "7A", "Ada", NOON))
    with pytest.raises(ComponentRefused) as refused:
        reader.transact(new_seat(Seat(flight="EY11", seat="7A")))

    assert (refused.value.component, refused.value.pattern) == ("reader", "S4")
    assert stores.run(seat_count("EY11")).count == 0


def test_component_may_not_run_operations_without_a_pattern(stores: BlockingStores) -> None:
    reader = BlockingStores(stores.stores.for_component("reader"))
    with pytest.raises(ComponentRefused, match="an operation that no pattern made"):
        reader.run(Seat.of("EY11").query())
    for way in (reader.all, reader.each):
        with pytest.raises(ComponentRefused, match="an operation that no pattern made"):
            way(Seat.of("EY11").query())


def test_partly_allowed_transaction_is_refused_entirely(stores: BlockingStores) -> None:
    writer = BlockingStores(stores.stores.for_component("writer"))
    for stranger in (
        Seat.of("EY11").delete("7B"),
        Seat.put(Seat(flight="EY11", seat="7C")).with_pattern("S9"),
    ):
        with pytest.raises(ComponentRefused):
            writer.transact(new_seat(Seat(flight="EY11", seat="7A")), stranger)
    assert stores.run(seat_count("EY11")).count == 0


def test_stores_without_a_system_have_no_components() -> None:
    with (
        open_blocking_stores(seats) as opened,
        pytest.raises(InvalidRequest, match="These stores have no system"),
    ):
        opened.stores.for_component("reader")


def test_missing_component_is_not_found(stores: BlockingStores) -> None:
    with pytest.raises(NotFound, match="no component 'nobody'"):
        stores.stores.for_component("nobody")


def test_component_operations_are_observed_on_their_stores(stores: BlockingStores) -> None:
    seen: list[tuple[str | None, str | None]] = []
    stores.stores.observe(lambda usage: seen.append((usage.component, usage.pattern)))

    BlockingStores(stores.stores.for_component("reader")).run(seat("EY11", "7A"))

    assert seen == [("reader", "S1")]


# --- names of tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "environment", "name"),
    [
        (Table("Bookings", partition="id"), "prod", "Bookings-prod"),
        (Table("Bookings", partition="id"), "", "Bookings"),
        (Table("Bookings", partition="id", physical="{environment}.sm.{name}"), "prod", "prod.sm.Bookings"),
    ],
)
def test_a_table_is_named_by_its_environment(table: Table, environment: str, name: str) -> None:
    assert table.physical_name(environment) == name


def test_environments_do_not_see_each_other() -> None:
    with open_blocking_stores(seats, system=CABIN) as opened:
        prod = Stores(opened.stores.tables, system=CABIN, environment="prod")
        with pytest.raises(NotFound) as refused:
            asyncio.run(prod.run(seat("EY11", "7A")))

    assert any("Table Seats-prod" in note for note in refused.value.__notes__)


async def test_stores_are_opened_as_the_settings_say(tmp_path: Any) -> None:
    settings = Settings(tables=f"sqlite:{tmp_path}/data/tables.db", environment="dev")
    stores = open_stores(CABIN, settings)

    assert stores.physical_name(seats) == "Seats-dev"
    await create_tables(stores, CABIN.tables)
    await stores.close()
    assert (tmp_path / "data" / "tables.db").exists()


async def test_stores_are_an_async_context_manager() -> None:
    async def used() -> Stores:
        async with open_memory_stores(CABIN) as stores:
            return stores

    assert isinstance(await used(), Stores)


def test_component_may_not_write_with_a_pattern_that_is_annotated_as_a_read() -> None:
    @pattern("X1", "A write that says it reads", rate=RATE, example=("EY11", "7A"))
    def mistaken(flight: str, name: str) -> Get[Seat]:
        return Seat.of(flight).delete(name)  # type: ignore[return-value]

    system = System("cabin", "Seats", tables=[seats], components=[Component("reader", uses=(mistaken,))])
    with open_blocking_stores(seats, system=system) as stores, pytest.raises(ComponentRefused) as refused:
        BlockingStores(stores.stores.for_component("reader")).run(mistaken("EY11", "7A"))

    assert "X1 writes, but its annotation names an operation that reads" in refused.value.__notes__[0]


def test_reads_and_writes_follow_from_the_operation() -> None:
    @pattern("X1", "A check", rate=RATE, example=("EY11", "7A"))
    def check(flight: str, name: str) -> ConditionCheck[Seat]:
        return Seat.of(flight).check(name)

    @pattern("X2", "A write of any kind", rate=RATE, example=("EY11", "7A"))
    def free(flight: str, name: str) -> Write[Any]:
        return Seat.of(flight).delete(name)

    assert [each.writes for each in (seat, several, take, swap, new_seat)] == [False, False, True, True, True]
    assert not check.writes  # A condition check changes nothing.
    assert free.writes  # The annotation names no single operation, so the example decides.
    assert (WRITER.reads, WRITER.writes) == ((seat,), (take, swap, new_seat))


def test_read_only_component_rejects_a_pattern_that_writes() -> None:
    assert Component("agent", uses=(seat, seats_in), read_only=True).writes == ()
    with pytest.raises(DeclarationError, match="The component agent is read-only, but S3, S4 writes"):
        Component("agent", uses=(seat, take, new_seat), read_only=True)


def test_uses_may_contain_generators() -> None:
    component = Component("agent", uses=(each for each in [(part for part in (seat, take))]))
    system = System("cabin", "Seats", tables=[seats], components=[component])

    assert component.parts == ()
    assert component.patterns == tuple(system.patterns) == (seat, take)


@pytest.mark.parametrize("element", ["S1", seat.function, 7])
def test_rejects_a_use_that_is_not_a_pattern(element: Any) -> None:
    with pytest.raises(DeclarationError, match="Invalid element .* in `uses` of the component agent"):
        _ = Component("agent", uses=(element,)).patterns


def test_consumer_patterns_are_named_after_the_queue_by_default() -> None:
    plain, named = Queue("parcels", Parcel), Queue("letters", Parcel, prefix="L", rate=Rate(per="letter"))
    fixed = Queue("cards", Parcel, pattern_ids=("C1", "C2", "C9"))

    assert [each.id for each in plain.consumer.patterns] == [
        "parcels-receive",
        "parcels-delete",
        "parcels-hold",
    ]
    assert plain.consumer.receive.rate == Rate(per="message of parcels")
    assert [each.id for each in named.consumer.patterns] == ["LR", "LD", "LH"]
    assert named.consumer.delete.rate == Rate(per="letter")
    assert [each.id for each in fixed.consumer.patterns] == ["C1", "C2", "C9"]
    assert all(each.writes for each in plain.consumer.patterns)
