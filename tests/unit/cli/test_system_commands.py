"""Commands that a system brings: from its functions' signatures, on the configured stores, for people and programs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Command
from holdfast.cli import main
from holdfast.cli.system_commands.parameters import build_parameters
from holdfast.cli.system_commands.results import print_result
from holdfast.core.errors import DeclarationError
from holdfast.model import system as systems
from tests.unit.cli import reading_room

ROOM = EntryPoint("readingroom", "tests.unit.cli.reading_room:SYSTEM", systems.ENTRY_POINT_GROUP)
SILENT = EntryPoint("shop", "tests.unit.reports.shop:SYSTEM", systems.ENTRY_POINT_GROUP)
BROKEN = EntryPoint("broken", "tests.unit.cli.no_such_module:SYSTEM", systems.ENTRY_POINT_GROUP)


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "150")
    points = {each.name: each for each in (ROOM, SILENT, BROKEN)}
    monkeypatch.setattr(systems, "_entry_points", lambda: points)


def answered(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as exited:
        main(words)
    told = capsys.readouterr()
    assert exited.value.code == code, told.err
    return told.out + told.err


def room(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    return answered(capsys, "readingroom", *words, code=code)


def parsed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(room(capsys, *words, "--json"))


@pytest.fixture
def two_books(capsys: pytest.CaptureFixture[str]) -> None:
    room(capsys, "books", "add", "i-1", "Emma", "--shelf", "novels", "--bought-on", "2026-02-04")
    room(capsys, "books", "add", "i-2", "Persuasion", "--shelf", "novels")


# --- what is shown ------------------------------------------------------------------------------------------


def test_a_text_is_told_as_it_is_and_what_was_written_is_in_the_configured_store(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = room(capsys, "books", "add", "i-1", "Emma", "--shelf", "maps")

    assert told == "Emma is on the shelf maps.\n"
    assert parsed(capsys, "books", "show", "i-1")["title"] == "Emma"


@pytest.mark.usefixtures("two_books")
def test_one_thing_is_shown_by_its_members_and_in_json_under_the_names_it_is_stored_under(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = room(capsys, "books", "show", "i-1")

    assert [line.split() for line in shown.splitlines()] == [
        ["isbn", "i-1"],
        ["title", "Emma"],
        ["shelf", "novels"],
        ["boughtOn", "2026-02-04"],
    ]
    assert parsed(capsys, "books", "show", "i-1") == {
        "isbn": "i-1",
        "title": "Emma",
        "shelf": "novels",
        "boughtOn": "2026-02-04",
    }


@pytest.mark.usefixtures("two_books")
def test_a_page_is_a_table_with_where_the_next_one_begins(capsys: pytest.CaptureFixture[str]) -> None:
    first = room(capsys, "books", "list", "--limit", "1")
    cursor = first.strip().rsplit(" ", 1)[1]
    rest = parsed(capsys, "books", "list", "--after", cursor)

    assert first.splitlines()[0].split() == ["isbn", "title", "shelf", "boughtOn"]
    assert "Emma" in first
    assert [each["title"] for each in rest["items"]] == ["Persuasion"]
    assert rest["cursor"] is None


def test_nothing_found_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert room(capsys, "books", "list", "--shelf", "maps") == "nothing\n"
    assert parsed(capsys, "books", "list", "--shelf", "maps") == {"items": [], "cursor": None}


def test_a_list_is_a_table_without_the_columns_that_are_empty(capsys: pytest.CaptureFixture[str]) -> None:
    shown = room(capsys, "lend", "i-1", "i-2", "--days", "7", "--renew")

    assert [line.split() for line in shown.splitlines()] == [
        ["isbn", "days", "renew"],
        ["i-1", "7", "yes"],
        ["i-2", "7", "yes"],
    ]


def test_what_is_too_wide_for_a_table_is_shown_one_after_the_other_and_nothing_is_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "i-" + "9" * 140
    shown = room(capsys, "lend", "i-1", long)

    assert [line.split() for line in shown.splitlines()][:4] == [
        ["isbn", "i-1"],
        ["days", "14"],
        ["renew", "no"],
        [],
    ]
    assert long in "".join(shown.split())


# --- what others wrote --------------------------------------------------------------------------------------

STEERING = "\x1b]0;pwned\x07\x1b[2J\x1b[31mhi\u202e"
SHOWN = r"\x1b]0;pwned\x07\x1b[2J\x1b[31mhi\u202e"


def test_no_title_steers_the_terminal_and_json_has_it_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    told = room(capsys, "books", "add", "i-1", STEERING, "--shelf", "novels")
    one, several = room(capsys, "books", "show", "i-1"), room(capsys, "books", "list")
    refused = room(capsys, "books", "show", STEERING, code=1)

    for each in (told, one, several, refused):
        assert SHOWN in each
        assert not {"\x1b", "\x07", "\u202e"} & set(each)
    assert parsed(capsys, "books", "show", "i-1")["title"] == STEERING
    assert "\u202e" in room(capsys, "books", "show", "i-1", "--json")


def test_a_title_that_is_shown_longer_than_it_is_makes_no_table_too_wide(
    capsys: pytest.CaptureFixture[str],
) -> None:
    room(capsys, "books", "add", "i-1", "\x1b" * 40, "--shelf", "novels")

    shown = room(capsys, "books", "list")

    assert r"\x1b" * 40 in "".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 150


def test_half_a_pair_of_surrogates_is_shown_and_in_json_an_escape(capsys: pytest.CaptureFixture[str]) -> None:
    assert r"\udcff" in room(capsys, "lend", "i-\udcff")
    assert parsed(capsys, "lend", "i-\udcff")[0]["isbn"] == "i-\udcff"


def test_json_has_no_number_that_json_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    class Reading(BaseModel):
        at: float

    print_result(
        [float("nan"), float("inf"), {"deep": float("-inf")}, Reading(at=float("nan")), 1.5], as_json=True
    )

    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert told == ["nan", "inf", {"deep": "-inf"}, {"at": "nan"}, 1.5]


# --- what is taken ------------------------------------------------------------------------------------------


def test_times_numbers_and_json_are_read_by_their_types(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("since", "2026-02-04T01:00:00", "--price", "1.10", "--config", '{"a": [1]}')

    assert parsed(capsys, *given) == {
        "at": "2026-02-04T01:00:00+00:00",
        "price": "1.10",
        "config": {"a": [1]},
    }


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("books", "list", "--shelf", "attic"), "attic"),
        (("books", "list", "--limit", "many"), "--limit"),
        (("books", "show"), "ISBN"),
        (("books", "add", "i-1", "Emma"), "--shelf"),
        (("books", "add", "i-1", "Emma", "--shelf", "maps", "--bought-on", "Monday"), "a date such as 2026-02-04"),
        (("since", "noon"), "a time such as 2026-02-04T01:00:00Z"),
        (("since", "2026-02-04T01:00:00Z", "--price", "dear"), "dear"),
        (("since", "2026-02-04T01:00:00Z", "--config", "[1]"), "dict"),
        (("books", "burn"), "burn"),
        (("burn",), "burn"),
        (("count", "--colour"), "--colour"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_exit_2_with_the_reason(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reason: str
) -> None:
    assert reason in room(capsys, *words, code=2)


def test_what_is_refused_is_one_line_and_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert room(capsys, "books", "show", "i-7", code=1) == "holdfast: There is no book i-7.\n"


def test_a_value_that_a_model_of_the_system_refuses_is_one_line_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = room(capsys, "lend", "i-1", "--days", "0", code=1)

    assert told.startswith("holdfast: Invalid Loan: days: input should be a valid integer")


def test_a_command_runs_as_the_component_it_names(capsys: pytest.CaptureFixture[str]) -> None:
    told = room(capsys, "books", "steal", code=1)

    assert "visitor" in told
    assert "R3" in told
    assert room(capsys, "count") == "0\n"


# --- where it hangs -----------------------------------------------------------------------------------------


def test_help_lists_the_systems_without_loading_them(capsys: pytest.CaptureFixture[str]) -> None:
    shown = answered(capsys, "--help")

    assert "Run a command of the system readingroom." in shown
    assert "Run a command of the system broken." in shown  # which could not be loaded


def test_the_help_of_a_system_has_the_first_line_of_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "list, show, add, steal" in room(capsys, "--help")
    shown = room(capsys, "books", "--help")
    assert "The books of a shelf." in shown
    assert "This line is not" not in shown
    assert "Which shelf." in room(capsys, "books", "list", "--help")


def test_no_system_is_loaded_for_a_command_of_holdfast() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys\nfrom holdfast.cli import main\n"
            "try:\n    main(['scan', '--help'])\nexcept SystemExit: pass\n"
            "sys.exit(any(each in sys.modules for each in ('agenticpm', 'richpanel', 'skymarshal')))",
        ],
        capture_output=True,
        check=False,
    )

    assert done.returncode == 0


def test_a_system_without_commands_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert "shop declares no commands" in answered(capsys, "shop", code=1)
    assert "shop declares no commands" in answered(capsys, "shop", "orders", "list", code=1)


def test_a_system_that_cannot_be_loaded_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no_such_module" in answered(capsys, "broken", "books", code=1)


def test_a_system_named_as_a_command_does_not_take_its_place_and_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("check", "tests.unit.cli.reading_room:SYSTEM", systems.ENTRY_POINT_GROUP)
    monkeypatch.setattr(systems, "_entry_points", lambda: {"check": point})

    assert answered(capsys, "--help").count("Check the design of a system") == 1
    assert "The commands of the system check cannot be called" in answered(capsys, "systems")


# --- declarations that cannot be ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "Books", "books  list", "books list!", "-x"])
def test_refuses_a_name_that_nobody_can_type(name: str) -> None:
    with pytest.raises(DeclarationError, match="Invalid command name"):
        replace(reading_room.SYSTEM, commands={name: reading_room.count})


def test_refuses_a_command_that_is_a_group_too() -> None:
    both: Mapping[str, Any] = {"books": reading_room.count, "books list": reading_room.list_books}
    with pytest.raises(DeclarationError, match="the first is also a group"):
        replace(reading_room.SYSTEM, commands=both)


def test_refuses_a_component_that_is_not_there() -> None:
    with pytest.raises(DeclarationError, match="Unknown component cellar"):
        replace(reading_room.SYSTEM, commands={"count": Command(reading_room.count, component="cellar")})


def test_refuses_a_function_that_takes_no_stores() -> None:
    async def nothing() -> None: ...

    with pytest.raises(DeclarationError, match="has no parameter for the stores"):
        build_parameters("room nothing", nothing)


def test_a_command_can_be_called_as_the_function_it_is() -> None:
    async def given(stores: Any, name: str) -> str:
        return f"{stores} {name}"

    awaited = Command(given, component="visitor")("stores", name="Ada")
    with pytest.raises(StopIteration, match="stores Ada"):
        awaited.__await__().send(None)
