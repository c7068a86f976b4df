"""Injected index lag: a global index shows writes once the lag has passed, and not before."""

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
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli import main
from holdfast.core.errors import ConditionFailed, TransactionCancelled
from holdfast.core.limits import MAX_PAGE_BYTES
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
from holdfast.stores.tables.embedded import EmbeddedTables, EngineFaults, open_tables

from .stepped_engine import START, FakeClock

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


class LaggingEngine:
    """An engine whose indexes lag, and its clock."""

    def __init__(self, tables: EmbeddedTables, clock: FakeClock) -> None:
        self.tables, self.clock = tables, clock
        self.run = tables.run_blocking

    def pass_lag(self) -> None:
        self.clock.moment += LAG_S

    def query_index(self) -> list[Item] | None:
        """Return the items of the partition `x` in the index `by_g`."""
        return self.run(IN_X).items


@contextmanager
def open_lagging_engine(path: Path | None = None) -> Iterator[LaggingEngine]:
    """Open an engine with the lag and the table, in a file or in memory."""
    clock = FakeClock()
    with open_tables(path, clock=clock, faults=EngineFaults(index_lag_s=LAG_S)) as tables:
        tables.run_blocking(CreateTable(TABLE))
        yield LaggingEngine(tables, clock)


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LaggingEngine]:
    with open_lagging_engine(tmp_path / "t.db" if request.param == "file" else None) as engine:
        yield engine


@pytest.mark.proves("SM-X26")
def test_a_new_item_is_absent_until_the_lag_has_passed(engine: LaggingEngine) -> None:
    engine.run(PutItem("tab", NEW))
    assert engine.query_index() == []
    engine.clock.moment += LAG_S - 0.001
    assert engine.query_index() == []
    engine.clock.moment = START + LAG_S
    assert engine.query_index() == [NEW]


def _set(text: str, **values: Any) -> UpdateItem:
    """Return an update of the item `KEY` with this expression."""
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
def test_index_shows_the_old_item_until_the_lag_has_passed(
    engine: LaggingEngine, write: Operation[Any], after: list[Item]
) -> None:
    engine.run(PutItem("tab", OLD))
    engine.pass_lag()
    engine.run(write)
    assert engine.query_index() == [OLD]
    engine.pass_lag()
    assert engine.query_index() == after


def test_index_shows_each_version_after_the_lag(engine: LaggingEngine) -> None:
    for number in range(4):
        engine.run(PutItem("tab", {**NEW, "a": number}))
        engine.clock.moment += LAG_S / 2
    seen = []
    for _ in range(4):
        seen += [item["a"] for item in engine.query_index() or ()]
        engine.clock.moment += LAG_S / 2
    assert seen == [2, 3, 3, 3]


def test_the_table_and_its_local_indexes_are_exact(engine: LaggingEngine) -> None:
    local = Query("tab", (KeyTest("pk", "=", ("a",)),), index="local")
    engine.run(PutItem("tab", OLD))
    engine.run(PutItem("tab", NEW))
    assert engine.run(GetItem("tab", KEY)).item == NEW
    for page in (Scan("tab"), Query("tab", (KeyTest("pk", "=", ("a",)),)), Scan("tab", index="local"), local):
        assert engine.run(page).items == [NEW]


def test_a_write_that_is_refused_leaves_no_trace(engine: LaggingEngine) -> None:
    engine.run(PutItem("tab", OLD))
    engine.pass_lag()
    with pytest.raises(ConditionFailed):
        engine.run(PutItem("tab", NEW, NEVER))
    with pytest.raises(TransactionCancelled):
        engine.run(TransactWriteItems((PutItem("tab", NEW), DeleteItem("tab", {"pk": "b", "sk": 1}, NEVER))))
    assert engine.query_index() == [OLD]
    engine.pass_lag()
    assert engine.query_index() == [OLD]


def test_changing_a_returned_old_item_has_no_effect(engine: LaggingEngine) -> None:
    engine.run(PutItem("tab", OLD))
    engine.pass_lag()
    given = engine.run(PutItem("tab", NEW, returns="ALL_OLD")).attributes
    assert given is not None
    given["a"] = "scribbled over"
    assert engine.query_index() == [OLD]


async def test_writes_of_a_transaction_become_visible_together(tmp_path: Path) -> None:
    async def at_once(tables: EmbeddedTables) -> None:
        await asyncio.gather(*(tables.run(PutItem("tab", {**NEW, "a": number})) for number in range(50)))

    with open_lagging_engine(tmp_path / "t.db") as engine:
        engine.run(PutItem("tab", OLD))
        engine.pass_lag()
        await at_once(engine.tables)
        assert engine.query_index() == [OLD]
        engine.pass_lag()
        assert engine.query_index() == [engine.run(GetItem("tab", KEY)).item]


def test_concurrent_reader_never_sees_writes_within_the_lag(tmp_path: Path) -> None:
    """The clock does not move, so no write may ever become visible here, not even during a commit."""
    done = threading.Event()
    seen: list[list[Item] | None] = []

    def reading(engine: LaggingEngine) -> None:
        while not done.is_set():
            seen.append(engine.query_index())

    with open_lagging_engine(tmp_path / "t.db") as engine:
        engine.run(PutItem("tab", OLD))
        engine.pass_lag()
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


def test_recreated_table_shows_nothing_of_the_old_one(engine: LaggingEngine) -> None:
    engine.run(PutItem("tab", OLD))
    engine.pass_lag()
    engine.run(DeleteItem("tab", KEY))
    engine.run(DeleteTable("tab"))
    engine.run(CreateTable(TABLE))
    assert engine.query_index() == []


def test_filters_projections_counts_and_capacity_use_the_visible_items(engine: LaggingEngine) -> None:
    engine.run(PutItem("tab", {**OLD, "a": "o" * 9000}))
    engine.pass_lag()
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


def test_page_limit_counts_items_deleted_since(engine: LaggingEngine) -> None:
    items = [{**OLD, "sk": number, "n": number, "a": "." * 300_000} for number in range(8)]
    for item in items:
        engine.run(PutItem("tab", item))
    engine.pass_lag()
    for item in items[::2]:
        engine.run(DeleteItem("tab", {"pk": "a", "sk": item["sk"]}))
    pages = list(follow_pages(engine.run, IN_X))
    assert [len(page.items or ()) for page in pages] == [4, 4, 0]
    assert [item for page in pages for item in page.items or ()] == items
    assert MAX_PAGE_BYTES < 4 * 300_000


@pytest.mark.parametrize("forward", [True, False])
def test_items_deleted_since_keep_their_order(engine: LaggingEngine, forward: bool) -> None:
    for number in range(6):
        engine.run(PutItem("tab", {**OLD, "sk": number, "n": number}))
    engine.pass_lag()
    for number in (4, 1, 2):
        engine.run(DeleteItem("tab", {"pk": "a", "sk": number}))
    query = msgspec.structs.replace(IN_X, forward=forward, limit=4)
    found = [item["n"] for page in follow_pages(engine.run, query) for item in page.items or ()]
    assert found == (list(range(6)) if forward else list(range(6))[::-1])


def test_earlier_item_costs_its_projected_size(engine: LaggingEngine) -> None:
    """An index on `n` holds `a` and not `b`."""
    engine.run(PutItem("tab", {**OLD, "a": "." * 5000, "b": "." * 50_000}))
    engine.pass_lag()
    engine.run(DeleteItem("tab", KEY))
    page = engine.run(Scan("tab", index="by_n", capacity="INDEXES"))
    assert [item.keys() for item in page.items or ()] == [{"pk", "sk", "g", "n", "a"}]
    assert page.capacity is not None and page.capacity.global_indexes["by_n"].read == 1.0


def test_page_continues_after_a_deleted_item(engine: LaggingEngine) -> None:
    for number in range(4):
        engine.run(PutItem("tab", {**OLD, "sk": number, "n": number}))
    engine.pass_lag()
    engine.run(DeleteItem("tab", {"pk": "a", "sk": 1}))
    first = engine.run(msgspec.structs.replace(IN_X, limit=2))
    engine.pass_lag()
    rest = engine.run(msgspec.structs.replace(IN_X, start_key=first.last_key))
    assert [item["n"] for page in (first, rest) for item in page.items or ()] == [0, 1, 2, 3]


State = dict[tuple[str, int], Item]

PLACES = st.tuples(st.sampled_from("ab"), st.integers(1, 3))
INDEXED = {"g": st.sampled_from(["x", "xy", "y"]), "n": st.integers(1, 3)}
TEXT = st.sampled_from([0, 1, 9]).map(lambda size: "." * size * 1000)
# An update that only removes creates no item, so there is always something to set. `b` is not in by_n.
REST = st.fixed_dictionaries({**INDEXED, "b": TEXT}, optional={"a": TEXT}) | st.fixed_dictionaries(
    {"b": TEXT}, optional={**INDEXED, "a": TEXT}
)
# By key: the item's other attributes, or None to delete it.
CHANGES = st.dictionaries(PLACES, st.none() | REST, min_size=1, max_size=4)
SETTLED = st.dictionaries(PLACES, REST, min_size=3)
LIMITS = st.none() | st.integers(1, 3)
FILTERS = st.sampled_from([None, AttributeExists(AttributePath("a"))])
SELECTS = st.sampled_from([None, None, "COUNT"])


def sort_tests(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[KeyTest, ...]]:
    """Return a strategy for conditions on the sort key `name`, including none."""
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


class LagComparison:
    """The lagging engine with every past state, and an exact engine that is set to the visible state."""

    def __init__(self, lagged: LaggingEngine, exact: EmbeddedTables) -> None:
        self.lagged, self.exact = lagged, exact
        self.state: State = {}
        self.shown: State = {}
        self.history: list[tuple[float, State]] = [(-math.inf, {})]

    def write(self, kind: str, changes: dict[tuple[str, int], Item | None]) -> None:
        """Write the changes in one of the `WAYS`, and record the state afterwards."""
        if kind == "single":
            changes = dict([next(iter(changes.items()))])
        for operation in WAYS[kind](changes):
            self.lagged.run(operation)
        self.state = _apply_changes(self.state, changes)
        self.history.append((self.lagged.clock.moment, self.state))

    def read(self, page: Query | Scan) -> None:
        """Compare all pages in every part: items, counts, last keys, costs."""
        self._show(self._past())
        assert list(follow_pages(self.lagged.run, page)) == list(follow_pages(self.exact.run_blocking, page))

    def check_whole(self, limit: int | None) -> None:
        """Compare whole scans with the recorded states, without the exact engine."""
        past, present = self._past().values(), self.state.values()
        for names, page, items in (
            (("g", "n", "pk", "sk"), Scan("tab", index="by_g", limit=limit), past),
            (("pk", "sk"), Scan("tab", limit=limit), present),
            (("pk", "n", "sk"), Scan("tab", index="local", limit=limit), present),
        ):
            held = [item for item in items if item.keys() >= set(names)]
            expected = sorted(held, key=lambda item: [item[name] for name in names])
            found = [item for each in follow_pages(self.lagged.run, page) for item in each.items or ()]
            assert found == expected

    def _past(self) -> State:
        """Return the state as of one lag ago."""
        horizon = self.lagged.clock.moment - LAG_S
        return [state for moment, state in self.history if moment <= horizon][-1]

    def _show(self, state: State) -> None:
        """Set the exact engine to this state."""
        for pk, sk in self.shown.keys() - state.keys():
            self.exact.run_blocking(DeleteItem("tab", {"pk": pk, "sk": sk}))
        for place, item in state.items():
            if self.shown.get(place) != item:
                self.exact.run_blocking(PutItem("tab", item))
        self.shown = state


def _apply_changes(state: State, changes: dict[tuple[str, int], Item | None]) -> State:
    """Return the state after the changes; None as a change deletes the item."""
    kept = {place: item for place, item in state.items() if place not in changes}
    put = {place: _item(place, rest) for place, rest in changes.items() if rest is not None}
    return kept | put


def _item(place: tuple[str, int], rest: Item) -> Item:
    """Return the item with this key and these other attributes."""
    return {"pk": place[0], "sk": place[1], **rest}


def _updates(changes: dict[tuple[str, int], Item | None]) -> Iterator[Operation[Any]]:
    """Yield the changes as updates and deletes."""
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
    """Yield the changes as puts and deletes."""
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
@given(
    settled=SETTLED,
    acts=st.lists(ACTS, max_size=10),
    reads=st.lists(READS, min_size=2, max_size=6),
    limit=LIMITS,
)
def test_every_page_matches_an_exact_index_as_of_one_lag_ago(
    settled: dict[tuple[str, int], Item | None],
    acts: list[tuple[str, tuple[Any, ...]]],
    reads: list[Query | Scan],
    limit: int | None,
) -> None:
    with open_lagging_engine() as lagged, open_tables() as exact:
        exact.run_blocking(CreateTable(TABLE))
        comparison = LagComparison(lagged, exact)
        comparison.write("batch", settled)
        lagged.pass_lag()
        for kind, given in acts:
            if kind == "move":
                lagged.clock.moment += given[0]
            else:
                getattr(comparison, kind)(*given)
        for page in reads:
            comparison.read(page)
        comparison.check_whole(limit)


def follow_pages(run: Callable[[Query | Scan], PageResult], page: Query | Scan) -> Iterator[PageResult]:
    """Yield the pages up to the last one."""
    while True:
        result = run(page)
        yield result
        if result.last_key is None:
            return
        page = msgspec.structs.replace(page, start_key=result.last_key)


def test_without_a_lag_indexes_are_exact() -> None:
    for faults in (None, EngineFaults(), EngineFaults(index_lag_s=0.0)):
        with open_tables(faults=faults) as tables:
            tables.run_blocking(CreateTable(TABLE))
            tables.run_blocking(PutItem("tab", NEW))
            assert tables.run_blocking(IN_X).items == [NEW]


def test_writes_of_another_engine_are_visible_at_once(tmp_path: Path) -> None:
    with open_lagging_engine(tmp_path / "t.db") as engine, open_tables(tmp_path / "t.db") as other:
        other.run_blocking(PutItem("tab", NEW))
        assert engine.query_index() == [NEW]


def test_expired_items_disappear_at_once(engine: LaggingEngine) -> None:
    engine.run(UpdateTimeToLive("tab", "end", True))
    engine.run(PutItem("tab", {**OLD, "end": int(START + LAG_S)}))
    engine.pass_lag()
    engine.tables.sweep()
    assert engine.query_index() == []


def test_forgets_writes_older_than_the_lag(engine: LaggingEngine) -> None:
    """However long the engine runs, it remembers only the writes of one lag."""
    lag = engine.tables._make_writer.__self__  # type: ignore[attr-defined]
    for number in range(10):
        engine.run(PutItem("tab", {**NEW, "sk": number}))
        engine.clock.moment += LAG_S / 2
    assert len(lag._recent) == 2


@pytest.mark.parametrize("lag_s", [-0.1, float("nan"), float("inf")])
def test_rejects_an_invalid_lag(lag_s: float) -> None:
    with pytest.raises(ValueError, match="0 seconds or more"):
        EngineFaults(index_lag_s=lag_s)


@pytest.mark.parametrize("words", ["nan", "inf", "-1", "half"])
def test_command_rejects_an_invalid_lag(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["serve", "--memory", "--port", "0", f"--index-lag={words}"])
    assert exited.value.code == 2
    assert capsys.readouterr().err == (
        f"holdfast: Invalid --index-lag {words}: expected seconds, 0 or more, such as 0.5.\n"
    )
