"""Global indexes that lag on demand: what was written is seen through them once the lag has passed, and not before."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cli import main
from holdfast.core.errors import ConditionFailed, TransactionCancelled
from holdfast.core.limits import PAGE_BYTES_MAX
from holdfast.operations.expressions import Placeholders, parse_condition, parse_projection, parse_update
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.expressions.nodes import AttributeExists
from holdfast.operations.expressions.nodes import Path as AttributePath
from holdfast.operations.tables import (
    BatchWriteItem,
    CreateTable,
    Delete,
    DeleteItem,
    DeleteTable,
    GetItem,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    Operation,
    PageResult,
    Put,
    PutItem,
    Query,
    Scan,
    TableDefinition,
    TransactWriteItems,
    UpdateItem,
    UpdateTimeToLive,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded import EmbeddedTables, Faults, open_tables

from .stepping import START, HandClock

LAG_S = 4.0
TABLE = TableDefinition(
    "tab",
    (
        KeyAttribute("pk", "S"),
        KeyAttribute("sk", "N"),
        KeyAttribute("g", "S"),
        KeyAttribute("n", "N"),
    ),
    KeySchema("pk", "sk"),
    global_indexes=(
        IndexDefinition("by_g", KeySchema("g", "n"), IndexProjection("ALL")),
        IndexDefinition("by_n", KeySchema("n", "g"), IndexProjection("INCLUDE", ("a",))),
    ),
    local_indexes=(IndexDefinition("local", KeySchema("pk", "n"), IndexProjection("ALL")),),
    billing_mode="PAY_PER_REQUEST",
)
OLD: Item = {"pk": "a", "sk": 1, "g": "x", "n": 1, "a": "old"}
NEW: Item = {"pk": "a", "sk": 1, "g": "x", "n": 1, "a": "new"}
KEY: Item = {"pk": "a", "sk": 1}
IN_X = Query("tab", (KeyTest("g", "=", ("x",)),), index="by_g")
NEVER = AttributeExists(AttributePath("nothing"))


class Lagging:
    """An engine whose indexes lag, and the clock it goes by."""

    def __init__(self, tables: EmbeddedTables, clock: HandClock) -> None:
        self.tables, self.clock = tables, clock
        self.run = tables.run_blocking

    def settle(self) -> None:
        self.clock.moment += LAG_S

    def seen(self) -> list[Item] | None:
        return self.run(IN_X).items


@contextmanager
def lagging(path: Path | None = None) -> Iterator[Lagging]:
    clock = HandClock()
    with open_tables(path, clock=clock, faults=Faults(index_lag_s=LAG_S)) as tables:
        tables.run_blocking(CreateTable(TABLE))
        yield Lagging(tables, clock)


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lagging]:
    with lagging(tmp_path / "t.db" if request.param == "file" else None) as engine:
        yield engine


# --- what is seen, and when ---------------------------------------------------------------------------------


@pytest.mark.proves("SM-X26")
def test_a_new_item_is_absent_until_the_lag_has_passed(engine: Lagging) -> None:
    engine.run(PutItem("tab", NEW))
    assert engine.seen() == []
    engine.clock.moment += LAG_S - 0.001
    assert engine.seen() == []
    engine.clock.moment = START + LAG_S
    assert engine.seen() == [NEW]


def _set(text: str, **values: Any) -> UpdateItem:
    return UpdateItem("tab", KEY, parse_update(text, _placeholders(values)))


def _placeholders(values: Item) -> Placeholders:
    return Placeholders(values={f":{name}": value for name, value in values.items()} or None)


WRITES: dict[str, tuple[Operation[Any], list[Item]]] = {
    "put": (PutItem("tab", NEW), [NEW]),
    "update": (_set("SET a = :a", a="new"), [NEW]),
    "out of the index": (_set("REMOVE n"), []),
    "elsewhere in the index": (_set("SET g = :g", g="y"), []),
    "delete": (DeleteItem("tab", KEY), []),
    "batch put": (BatchWriteItem((Put("tab", NEW),)), [NEW]),
    "batch delete": (BatchWriteItem((Delete("tab", KEY),)), []),
    "transact put": (TransactWriteItems((PutItem("tab", NEW),)), [NEW]),
    "transact delete": (TransactWriteItems((DeleteItem("tab", KEY),)), []),
}


@pytest.mark.proves("SM-X26")
@pytest.mark.parametrize(("write", "after"), WRITES.values(), ids=WRITES)
def test_after_every_kind_of_write_the_item_is_seen_as_it_was_until_the_lag_has_passed(
    engine: Lagging, write: Operation[Any], after: list[Item]
) -> None:
    engine.run(PutItem("tab", OLD))
    engine.settle()
    engine.run(write)
    assert engine.seen() == [OLD]
    engine.settle()
    assert engine.seen() == after


def test_an_item_written_again_and_again_is_seen_at_each_step_a_lag_later(engine: Lagging) -> None:
    for number in range(4):
        engine.run(PutItem("tab", {**NEW, "a": number}))
        engine.clock.moment += LAG_S / 2
    seen = []
    for _ in range(4):
        seen += [item["a"] for item in engine.seen() or ()]
        engine.clock.moment += LAG_S / 2
    assert seen == [2, 3, 3, 3]


def test_the_table_and_its_local_indexes_are_exact(engine: Lagging) -> None:
    local = Query("tab", (KeyTest("pk", "=", ("a",)),), index="local")
    engine.run(PutItem("tab", OLD))
    engine.run(PutItem("tab", NEW))
    assert engine.run(GetItem("tab", KEY)).item == NEW
    for page in (Scan("tab"), Query("tab", (KeyTest("pk", "=", ("a",)),)), Scan("tab", index="local"), local):
        assert engine.run(page).items == [NEW]


def test_a_write_that_is_refused_leaves_no_trace(engine: Lagging) -> None:
    engine.run(PutItem("tab", OLD))
    engine.settle()
    with pytest.raises(ConditionFailed):
        engine.run(PutItem("tab", NEW, NEVER))
    with pytest.raises(TransactionCancelled):
        engine.run(TransactWriteItems((PutItem("tab", NEW), DeleteItem("tab", {"pk": "b", "sk": 1}, NEVER))))
    assert engine.seen() == [OLD]
    engine.settle()
    assert engine.seen() == [OLD]


def test_a_caller_who_changes_the_old_item_it_was_given_changes_nothing(engine: Lagging) -> None:
    engine.run(PutItem("tab", OLD))
    engine.settle()
    given = engine.run(PutItem("tab", NEW, returns="ALL_OLD")).attributes
    assert given is not None
    given["a"] = "scribbled over"
    assert engine.seen() == [OLD]


def test_writes_that_share_a_transaction_are_seen_together(tmp_path: Path) -> None:
    async def at_once(tables: EmbeddedTables) -> None:
        await asyncio.gather(*(tables.run(PutItem("tab", {**NEW, "a": number})) for number in range(50)))

    with lagging(tmp_path / "t.db") as engine:
        engine.run(PutItem("tab", OLD))
        engine.settle()
        asyncio.run(at_once(engine.tables))
        assert engine.seen() == [OLD]
        engine.settle()
        assert engine.seen() == [engine.run(GetItem("tab", KEY)).item]


def test_a_reader_beside_a_writer_never_sees_what_is_too_new(tmp_path: Path) -> None:
    """The clock stands, so nothing that is written here may ever be seen, not for the moment of a commit either."""
    done = threading.Event()
    seen: list[list[Item] | None] = []

    def reading(engine: Lagging) -> None:
        while not done.is_set():
            seen.append(engine.seen())

    with lagging(tmp_path / "t.db") as engine:
        engine.run(PutItem("tab", OLD))
        engine.settle()
        reader = threading.Thread(target=reading, args=(engine,))
        reader.start()
        try:
            for number in range(200):
                engine.run(PutItem("tab", {**NEW, "a": number}))
                engine.run(PutItem("tab", {**NEW, "sk": number + 2}))
        finally:
            done.set()
            reader.join()
    assert seen
    assert all(page == [OLD] for page in seen)


def test_a_table_made_anew_under_the_same_name_has_nothing_of_the_old_one(engine: Lagging) -> None:
    engine.run(PutItem("tab", OLD))
    engine.settle()
    engine.run(DeleteItem("tab", KEY))
    engine.run(DeleteTable("tab"))
    engine.run(CreateTable(TABLE))
    assert engine.seen() == []


# --- pages --------------------------------------------------------------------------------------------------


def test_filters_projections_counts_and_capacity_are_of_what_is_seen(engine: Lagging) -> None:
    engine.run(PutItem("tab", {**OLD, "a": "o" * 9000}))
    engine.settle()
    engine.run(PutItem("tab", NEW))
    engine.run(PutItem("tab", {**NEW, "sk": 2}))
    big = parse_condition("size(a) > :size", "FilterExpression", Placeholders(values={":size": 100}))
    filtered = msgspec.structs.replace(IN_X, filter=big, capacity="INDEXES")
    page = engine.run(msgspec.structs.replace(filtered, projection=parse_projection("sk, n", Placeholders())))
    assert page.items == [{"sk": 1, "n": 1}]
    assert (page.count, page.scanned_count, page.last_key) == (1, 1, None)
    assert page.capacity is not None and page.capacity.global_indexes["by_g"].read == 1.5
    counted = engine.run(msgspec.structs.replace(filtered, select="COUNT"))
    assert (counted.items, counted.count) == (None, 1)


def test_a_page_ends_at_its_megabyte_with_items_that_were_deleted_since(engine: Lagging) -> None:
    items = [{**OLD, "sk": number, "n": number, "a": "." * 300_000} for number in range(8)]
    for item in items:
        engine.run(PutItem("tab", item))
    engine.settle()
    for item in items[::2]:
        engine.run(DeleteItem("tab", {"pk": "a", "sk": item["sk"]}))
    pages = list(followed(engine.run, IN_X))
    assert [len(page.items or ()) for page in pages] == [4, 4, 0]
    assert [item for page in pages for item in page.items or ()] == items
    assert PAGE_BYTES_MAX < 4 * 300_000


@pytest.mark.parametrize("forward", [True, False])
def test_items_deleted_since_stand_in_their_order_among_the_others(engine: Lagging, forward: bool) -> None:
    for number in range(6):
        engine.run(PutItem("tab", {**OLD, "sk": number, "n": number}))
    engine.settle()
    for number in (4, 1, 2):
        engine.run(DeleteItem("tab", {"pk": "a", "sk": number}))
    query = msgspec.structs.replace(IN_X, forward=forward, limit=4)
    found = [item["n"] for page in followed(engine.run, query) for item in page.items or ()]
    assert found == (list(range(6)) if forward else list(range(6))[::-1])


def test_an_earlier_item_costs_what_the_index_held_of_it(engine: Lagging) -> None:
    """An index on `n` holds `a` and not `b`."""
    engine.run(PutItem("tab", {**OLD, "a": "." * 5000, "b": "." * 50_000}))
    engine.settle()
    engine.run(DeleteItem("tab", KEY))
    page = engine.run(Scan("tab", index="by_n", capacity="INDEXES"))
    assert [item.keys() for item in page.items or ()] == [{"pk", "sk", "g", "n", "a"}]
    assert page.capacity is not None and page.capacity.global_indexes["by_n"].read == 1.0


def test_a_page_goes_on_behind_an_item_that_is_gone_by_then(engine: Lagging) -> None:
    for number in range(4):
        engine.run(PutItem("tab", {**OLD, "sk": number, "n": number}))
    engine.settle()
    engine.run(DeleteItem("tab", {"pk": "a", "sk": 1}))
    first = engine.run(msgspec.structs.replace(IN_X, limit=2))
    engine.settle()
    rest = engine.run(msgspec.structs.replace(IN_X, start_key=first.last_key))
    assert [item["n"] for page in (first, rest) for item in page.items or ()] == [0, 1, 2, 3]


# --- anything, against the past -----------------------------------------------------------------------------

State = dict[tuple[str, int], Item]
Act = Callable[["Beside"], None]

PLACES = st.tuples(st.sampled_from("ab"), st.integers(1, 3))
INDEXED = {"g": st.sampled_from(["x", "xy", "y"]), "n": st.integers(1, 3)}
TEXT = st.sampled_from([0, 1, 9]).map(lambda size: "." * size * 1000)
# An update that only removes makes no item, so there is always something to set. `b` is not in by_n.
REST = st.fixed_dictionaries({**INDEXED, "b": TEXT}, optional={"a": TEXT}) | st.fixed_dictionaries(
    {"b": TEXT}, optional={**INDEXED, "a": TEXT}
)
# By place: the item's other attributes, or None to delete it.
CHANGES = st.dictionaries(PLACES, st.none() | REST, min_size=1, max_size=4)
SETTLED = st.dictionaries(PLACES, REST, min_size=3)
LIMITS = st.none() | st.integers(1, 3)
FILTERS = st.sampled_from([None, AttributeExists(AttributePath("a"))])
SELECTS = st.sampled_from([None, None, "COUNT"])


def sort_tests(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[KeyTest, ...]]:
    one = st.builds(
        lambda operator, value: (KeyTest(name, operator, (value,)),),
        st.sampled_from(["=", "<", "<=", ">", ">="]),
        values,
    )
    two = st.tuples(values, values).map(lambda ends: (KeyTest(name, "between", tuple(sorted(ends))),))
    return st.just(()) | one | two


PREFIXES = st.sampled_from(["x", "xy", "y"])
BEGINS = PREFIXES.map(lambda prefix: (KeyTest("g", "begins_with", (prefix,)),))
ANSWERED = {"filter": FILTERS, "select": SELECTS, "limit": LIMITS, "capacity": st.just("INDEXES")}
READS: st.SearchStrategy[Query | Scan] = st.one_of(
    st.builds(
        Query,
        st.just("tab"),
        st.builds(
            lambda g, sort: (KeyTest("g", "=", (g,)), *sort), PREFIXES, sort_tests("n", st.integers(1, 3))
        ),
        index=st.just("by_g"),
        forward=st.booleans(),
        **ANSWERED,
    ),
    st.builds(
        Query,
        st.just("tab"),
        st.builds(
            lambda n, sort: (KeyTest("n", "=", (n,)), *sort),
            st.integers(1, 3),
            BEGINS | sort_tests("g", PREFIXES),
        ),
        index=st.just("by_n"),
        forward=st.booleans(),
        **ANSWERED,
    ),
    st.builds(
        lambda index, parts, **more: Scan("tab", index=index, segment=parts[0], segments=parts[1], **more),
        st.sampled_from(["by_g", "by_n"]),
        st.sampled_from([(None, None), (0, 2), (1, 2), (2, 3)]),
        **ANSWERED,
    ),
)


class Beside:
    """The lagging engine beside every state there was, and an exact engine that is taken to the state to be seen."""

    def __init__(self, lagged: Lagging, exact: EmbeddedTables) -> None:
        self.lagged, self.exact = lagged, exact
        self.state: State = {}
        self.shown: State = {}
        self.history: list[tuple[float, State]] = [(-math.inf, {})]

    def write(self, kind: str, changes: dict[tuple[str, int], Item | None]) -> None:
        if kind == "single":
            changes = dict([next(iter(changes.items()))])
        for operation in WAYS[kind](changes):
            self.lagged.run(operation)
        self.state = _changed(self.state, changes)
        self.history.append((self.lagged.clock.moment, self.state))

    def read(self, page: Query | Scan) -> None:
        """All pages are the same in every part: items, counts, where they end, what they cost."""
        self._show(self._past())
        assert list(followed(self.lagged.run, page)) == list(followed(self.exact.run_blocking, page))

    def check_whole(self, limit: int | None) -> None:
        """By no engine's word: the index as it was, the table and its local index as they are."""
        past, present = self._past().values(), self.state.values()
        for names, page, items in (
            (("g", "n", "pk", "sk"), Scan("tab", index="by_g", limit=limit), past),
            (("pk", "sk"), Scan("tab", limit=limit), present),
            (("pk", "n", "sk"), Scan("tab", index="local", limit=limit), present),
        ):
            held = [item for item in items if item.keys() >= set(names)]
            expected = sorted(held, key=lambda item: [item[name] for name in names])
            found = [item for each in followed(self.lagged.run, page) for item in each.items or ()]
            assert found == expected

    def _past(self) -> State:
        horizon = self.lagged.clock.moment - LAG_S
        return [state for moment, state in self.history if moment <= horizon][-1]

    def _show(self, state: State) -> None:
        for pk, sk in self.shown.keys() - state.keys():
            self.exact.run_blocking(DeleteItem("tab", {"pk": pk, "sk": sk}))
        for place, item in state.items():
            if self.shown.get(place) != item:
                self.exact.run_blocking(PutItem("tab", item))
        self.shown = state


def _changed(state: State, changes: dict[tuple[str, int], Item | None]) -> State:
    kept = {place: item for place, item in state.items() if place not in changes}
    put = {place: _item(place, rest) for place, rest in changes.items() if rest is not None}
    return kept | put


def _item(place: tuple[str, int], rest: Item) -> Item:
    return {"pk": place[0], "sk": place[1], **rest}


def _updates(changes: dict[tuple[str, int], Item | None]) -> Iterator[Operation[Any]]:
    for place, rest in changes.items():
        key = _item(place, {})
        if rest is None:
            yield DeleteItem("tab", key)
            continue
        text = "SET " + ", ".join(f"{name} = :{name}" for name in rest)
        drops = [name for name in ("g", "n", "a") if name not in rest]
        if drops:
            text += " REMOVE " + ", ".join(drops)
        yield UpdateItem("tab", key, parse_update(text, _placeholders(rest)))


def _puts(changes: dict[tuple[str, int], Item | None]) -> Iterator[PutItem | DeleteItem]:
    for place, rest in changes.items():
        yield DeleteItem("tab", _item(place, {})) if rest is None else PutItem("tab", _item(place, rest))


def _batch(changes: dict[tuple[str, int], Item | None]) -> Iterator[Operation[Any]]:
    yield BatchWriteItem(
        tuple(
            Delete("tab", _item(place, {})) if rest is None else Put("tab", _item(place, rest))
            for place, rest in changes.items()
        )
    )


def _transaction(changes: dict[tuple[str, int], Item | None]) -> Iterator[Operation[Any]]:
    yield TransactWriteItems(tuple(_puts(changes)))


WAYS: dict[str, Callable[[dict[tuple[str, int], Item | None]], Iterator[Operation[Any]]]] = {
    "single": _puts,
    "update": _updates,
    "batch": _batch,
    "transaction": _transaction,
}
ACTS: st.SearchStrategy[tuple[str, tuple[Any, ...]]] = st.one_of(
    st.tuples(st.just("write"), st.tuples(st.sampled_from(sorted(WAYS)), CHANGES)),
    st.tuples(st.just("write"), st.tuples(st.sampled_from(sorted(WAYS)), CHANGES)),
    st.tuples(st.just("move"), st.tuples(st.sampled_from([0.5, 1.0, LAG_S]))),
    st.tuples(st.just("read"), st.tuples(READS)),
)


@pytest.mark.proves("SM-X26")
@settings(max_examples=150)
@given(
    settled=SETTLED,
    acts=st.lists(ACTS, max_size=10),
    reads=st.lists(READS, min_size=2, max_size=6),
    limit=LIMITS,
)
def test_whatever_is_written_every_page_is_that_of_an_index_as_it_was_a_lag_ago(
    settled: dict[tuple[str, int], Item | None],
    acts: list[tuple[str, tuple[Any, ...]]],
    reads: list[Query | Scan],
    limit: int | None,
) -> None:
    with lagging() as lagged, open_tables() as exact:
        exact.run_blocking(CreateTable(TABLE))
        beside = Beside(lagged, exact)
        beside.write("batch", settled)
        lagged.settle()
        for kind, given in acts:
            if kind == "move":
                lagged.clock.moment += given[0]
            else:
                getattr(beside, kind)(*given)
        for page in reads:
            beside.read(page)
        beside.check_whole(limit)


def followed(run: Callable[[Query | Scan], PageResult], page: Query | Scan) -> Iterator[PageResult]:
    """The pages to the last one."""
    while True:
        result = run(page)
        yield result
        if result.last_key is None:
            return
        page = msgspec.structs.replace(page, start_key=result.last_key)


# --- what is seen at once, and what is no lag ---------------------------------------------------------------


def test_without_a_lag_indexes_are_exact() -> None:
    for faults in (None, Faults(), Faults(index_lag_s=0.0)):
        with open_tables(faults=faults) as tables:
            tables.run_blocking(CreateTable(TABLE))
            tables.run_blocking(PutItem("tab", NEW))
            assert tables.run_blocking(IN_X).items == [NEW]


def test_what_another_engine_writes_to_the_same_file_is_seen_at_once(tmp_path: Path) -> None:
    with lagging(tmp_path / "t.db") as engine, open_tables(tmp_path / "t.db") as other:
        other.run_blocking(PutItem("tab", NEW))
        assert engine.seen() == [NEW]


def test_what_is_removed_because_its_time_is_over_is_gone_at_once(engine: Lagging) -> None:
    engine.run(UpdateTimeToLive("tab", "end", True))
    engine.run(PutItem("tab", {**OLD, "end": int(START + LAG_S)}))
    engine.settle()
    engine.tables.sweep()
    assert engine.seen() == []


def test_what_has_arrived_is_forgotten(engine: Lagging) -> None:
    """However long the engine runs, it remembers no more than the writes of one lag."""
    lag = engine.tables._writing.__self__  # type: ignore[attr-defined]
    for number in range(10):
        engine.run(PutItem("tab", {**NEW, "sk": number}))
        engine.clock.moment += LAG_S / 2
    assert len(lag._recent) == 2


@pytest.mark.parametrize("lag_s", [-0.1, float("nan"), float("inf")])
def test_a_lag_that_is_no_time_is_refused(lag_s: float) -> None:
    with pytest.raises(ValueError, match="0 seconds or more"):
        Faults(index_lag_s=lag_s)


@pytest.mark.parametrize("words", ["nan", "inf", "-1", "half"])
def test_the_command_refuses_a_lag_that_is_no_time(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["serve", "--memory", "--port", "0", f"--index-lag={words}"])
    assert exited.value.code == 2
    assert capsys.readouterr().err == (
        f"holdfast: Invalid --index-lag {words}: expected seconds, 0 or more, such as 0.5.\n"
    )
