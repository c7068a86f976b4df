"""Indexes added online to filled tables, by function and by command."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast import Stores, open_memory_stores, open_stores
from holdfast.cli import main
from holdfast.config.settings import Settings
from holdfast.core.errors import NotFound, RetryLater
from holdfast.operations import tables as requests
from holdfast.runtime import add_indexes, get_index_reports
from holdfast_demo.skymarshal.sample.bags import build_bags, count_bags, count_paid_bags
from holdfast_demo.skymarshal.sample.journeys import build_bookings as planned_bookings
from holdfast_demo.skymarshal.sample.journeys import build_journeys
from holdfast_demo.skymarshal.sample.schedule import Block
from skymarshal.model import patterns
from skymarshal.model.entities import (
    BookingId,
    PassengerId,
    baggage,
    bookings,
    frequent_flyer_index,
    pnr_index,
)
from skymarshal.system import SYSTEM
from tests.cases import all_cases
from tests.systems.skymarshal.acceptance.conftest import open_copy

T = TypeVar("T")

ALL_INDEXES = 14
OPTIONAL = {"frequent-flyer-index", "pnr-index", "flight-risk-index"}


class RecordingTables:
    """A tables engine that records the operations it runs in `asked`."""

    def __init__(self, stores: Stores) -> None:
        self._tables = stores.tables
        self.asked: list[requests.Operation[Any]] = []

    async def run(self, operation: requests.Operation[T]) -> T:
        self.asked.append(operation)
        return await self._tables.run(operation)

    @property
    def changes(self) -> list[requests.UpdateTable]:
        """The recorded operations that change a table."""
        return [each for each in self.asked if isinstance(each, requests.UpdateTable)]


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def fill_without_indexes(stores: Stores) -> None:
    """Create all tables without indexes and write bookings, bags and passengers of a small sample."""
    for table in SYSTEM.tables:
        definition = table.definition(stores.physical_name(table), indexes=())
        await stores.tables.run(requests.CreateTable(definition))
    block = Block(0, 0.02)
    planned = build_journeys(block)
    counts = count_bags(block, planned)
    await stores.run(
        patterns.import_bookings(list(planned_bookings(planned, count_paid_bags(block, counts))))
    )
    await stores.run(patterns.import_bags(list(build_bags(block, planned, counts))))
    await stores.run(patterns.import_passengers([each.passenger for each in planned]))


@pytest.fixture(scope="module")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tables file with rows in tables without indexes, to be copied."""
    path = tmp_path_factory.mktemp("filled") / "tables.db"

    async def create() -> None:
        async with open_stores(SYSTEM, Settings(tables=f"sqlite:{path}")) as stores:
            await fill_without_indexes(stores)

    run(create())
    return path


@pytest.fixture
def stores(filled_file: Path, tmp_path: Path) -> Iterable[Stores]:
    """Stores with rows in tables without indexes."""
    made = open_copy(filled_file, tmp_path)
    yield made
    run(made.close())


@pytest.mark.proves("SM-32")
def test_builds_indexes_over_existing_rows(stores: Stores) -> None:
    reports = run(add_indexes(stores, [*bookings.indexes, *baggage.indexes]))

    assert {(each.status, each.percent) for each in reports} == {("ACTIVE", 100.0)}
    assert len(run(stores.all(patterns.bookings_of_passenger(PassengerId("OZ69826352P"))))) == 3
    assert len(run(stores.all(patterns.bags_at("AUH")))) == 847
    assert len(run(stores.all(patterns.bags_of_booking(BookingId("1"))))) == 2


@pytest.mark.proves("SM-32")
@pytest.mark.proves("SM-X22")
def test_creates_one_index_at_a_time_per_table(stores: Stores) -> None:
    recorded = RecordingTables(stores)
    stores.tables = recorded

    run(add_indexes(stores, list(bookings.indexes)))

    assert [len(each.index_changes) for each in recorded.changes] == [1, 1]
    first, second = (recorded.asked.index(each) for each in recorded.changes)
    assert any(isinstance(each, requests.DescribeTable) for each in recorded.asked[first + 1 : second])


@pytest.mark.proves("SM-32")
def test_leaves_existing_indexes_alone(stores: Stores) -> None:
    run(add_indexes(stores, list(bookings.indexes)))
    recorded = RecordingTables(stores)
    stores.tables = recorded

    reports = run(add_indexes(stores, list(bookings.indexes)))

    assert recorded.changes == []
    assert {each.status for each in reports} == {"ACTIVE"}


@pytest.mark.proves("SM-32")
def test_without_waiting_starts_one_index_per_table(stores: Stores) -> None:
    """Later calls complete the others."""
    recorded = RecordingTables(stores)
    stores.tables = recorded

    run(add_indexes(stores, [*bookings.indexes, *baggage.indexes], wait=False))

    assert {each.table for each in recorded.changes} == {"Bookings", "Baggage"}
    run(add_indexes(stores, [*bookings.indexes, *baggage.indexes]))
    reports = run(get_index_reports(stores, [bookings, baggage]))
    assert {each.status for each in reports} == {"ACTIVE"}


@pytest.mark.proves("SM-32")
def test_waiting_stops_at_the_timeout(stores: Stores) -> None:
    class StuckTables(RecordingTables):
        """A tables engine that reports every index as still being created."""

        async def run(self, operation: requests.Operation[T]) -> T:
            answer = await super().run(operation)
            if isinstance(answer, requests.TableDescription):
                states = {name: requests.IndexState("CREATING", True, 0) for name in answer.global_indexes}
                return type(answer)(
                    answer.definition, answer.id, answer.status, answer.created_at, global_indexes=states
                )
            return answer

    stores.tables = StuckTables(stores)

    with pytest.raises(RetryLater, match=r"is not built after 0\.05 s\. It continues in the background"):
        run(add_indexes(stores, [bookings.indexes[0]], wait_s=0.05))


@pytest.mark.proves("SM-39")
def test_progress_rises_to_100_percent(stores: Stores) -> None:
    reports: list[float] = []

    run(add_indexes(stores, [bookings.indexes[0]], progress=lambda report: reports.append(report.percent)))

    assert reports == sorted(reports)
    assert reports[-1] == 100.0


def test_refuses_an_index_on_a_missing_table() -> None:
    with pytest.raises(
        NotFound, match="Table Bookings does not exist, so passenger-flight-index cannot be added"
    ):
        run(add_indexes(open_memory_stores(SYSTEM), list(bookings.indexes)))


# --- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def file(filled_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tables file without indexes, where the settings expect it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    return Path(shutil.copy(filled_file, tmp_path / "data"))


def run_command(*arguments: str) -> int:
    """Run `holdfast indexes` with these arguments and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["indexes", *arguments])
    return int(ended.value.code or 0)


def read_statuses(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[tuple[str, str], str]:
    """Return the status of each index by table and name, as `holdfast indexes status` prints it."""
    capsys.readouterr()
    assert run_command("status", "skymarshal", "--json", *arguments) == 0
    return {(each["table"], each["index"]): each["status"] for each in json.loads(capsys.readouterr().out)}


@pytest.mark.proves("SM-32")
def test_command_adds_only_the_default_indexes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(read_statuses(capsys).values()) == {"ABSENT"}

    assert run_command("add", "skymarshal") == 0

    assert "11 of 11 are active." in capsys.readouterr().out
    found = read_statuses(capsys)
    assert len(found) == ALL_INDEXES
    assert {index for (_, index), status in found.items() if status == "ABSENT"} == OPTIONAL
    assert run_command("add", "skymarshal") == 0


@pytest.mark.proves("SM-15", "SM-16", "SM-19")
def test_command_adds_optional_indexes_on_request(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("add", "skymarshal", "--optional") == 0

    assert set(read_statuses(capsys).values()) == {"ACTIVE"}


def test_command_can_be_limited_to_one_table_or_index(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("add", "skymarshal", "--table", "Bookings") == 0
    assert run_command("add", "skymarshal", "--index", "pnr-index") == 0

    found = read_statuses(capsys)
    active = {place for place, status in found.items() if status == "ACTIVE"}
    assert active == {
        ("Bookings", "passenger-flight-index"),
        ("Bookings", "flight-status-index"),
        ("Passengers", "pnr-index"),
    }
    assert set(read_statuses(capsys, "--table", "Bookings").values()) == {"ACTIVE"}


def test_command_without_waiting_starts_only_the_first_index(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("add", "skymarshal", "--table", "Bookings", "--no-wait", "--json") == 0

    begun = json.loads(capsys.readouterr().out)
    assert begun[0]["status"] in ("CREATING", "ACTIVE")
    assert begun[1]["status"] == "ABSENT"
    assert run_command("add", "skymarshal", "--table", "Bookings") == 0
    assert set(read_statuses(capsys, "--table", "Bookings").values()) == {"ACTIVE"}


@pytest.mark.proves("SM-32")
def test_missing_table_fails_the_command_but_not_other_tables(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def drop() -> None:
        async with open_stores(SYSTEM, Settings(tables=f"sqlite:{file}")) as stores:
            await stores.tables.run(requests.DeleteTable("Baggage"))

    run(drop())

    assert run_command("add", "skymarshal") == 1

    output = capsys.readouterr().err
    assert "Table Baggage does not exist, so booking-index cannot be added" in output
    assert "`holdfast tables skymarshal --create`" in output
    found = read_statuses(capsys)
    assert found["Baggage", "booking-index"] == "NO TABLE"
    assert found["Bookings", "flight-status-index"] == "ACTIVE"


@all_cases(
    ("arguments", "message"),
    [
        (("add", "nosystem"), "System 'nosystem' is not installed"),
        (("add", "skymarshal", "--table", "Bokings"), "has no table 'Bokings'"),
        (("status", "skymarshal", "--index", "none"), "Unknown index 'none': choose from"),
    ],
)
def test_reports_why_a_command_failed(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert run_command(*arguments) == 1

    assert message in capsys.readouterr().err


def test_optional_indexes_answer_their_queries(stores: Stores) -> None:
    run(add_indexes(stores, [frequent_flyer_index, pnr_index]))

    flyers = run(stores.all(patterns.passengers_of_frequent_flyer("EY100000001")))
    same_pnr = run(stores.all(patterns.passengers_of_pnr("OZ6982")))
    assert {each.passenger_id for each in (*flyers, *same_pnr)} == {"OZ69826352P"}
