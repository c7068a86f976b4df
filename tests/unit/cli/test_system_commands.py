"""Commands that a system declares: their arguments, output, help, errors and loading."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from typer.main import get_command

from holdfast import Component, System
from holdfast.cli import main
from holdfast.cli.app import GROUPS, app
from holdfast.cli.system_commands.general_commands import list_general_commands
from holdfast.cli.system_commands.groups import build_system_app
from holdfast.cli.system_commands.parameters import build_parameters
from holdfast.cli.system_commands.results import print_result
from holdfast.core import installed_systems
from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.mcp import AGENT
from holdfast.model.system import Command, load_system
from tests.unit.cli import reading_room
from tests.unit.reports import shop

ROOM = EntryPoint("readingroom", "tests.unit.cli.reading_room:SYSTEM", installed_systems.ENTRY_POINT_GROUP)
SILENT = EntryPoint("shop", "tests.unit.reports.shop:SYSTEM", installed_systems.ENTRY_POINT_GROUP)
BROKEN = EntryPoint("broken", "tests.unit.cli.no_such_module:SYSTEM", installed_systems.ENTRY_POINT_GROUP)


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the reading room, a system without commands and one that cannot be loaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "150")
    points = {each.name: each for each in (ROOM, SILENT, BROKEN)}

    def find(group: str = installed_systems.ENTRY_POINT_GROUP) -> dict[str, EntryPoint]:
        return points if group == installed_systems.ENTRY_POINT_GROUP else {}

    monkeypatch.setattr(installed_systems, "find_entry_points", find)


def run_command(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Run the command line, check its exit code, and return all output."""
    with pytest.raises(SystemExit) as exited:
        main(words)
    output = capsys.readouterr()
    assert exited.value.code == code, output.err
    return output.out + output.err


def run_room(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Run a command of the reading room, check its exit code, and return all output."""
    return run_command(capsys, "readingroom", *words, code=code)


def run_room_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(run_room(capsys, *words, "--json"))


@pytest.fixture
def two_books(capsys: pytest.CaptureFixture[str]) -> None:
    """Add two novels."""
    run_room(capsys, "books", "add", "i-1", "Emma", "--shelf", "novels", "--bought-on", "2026-02-04")
    run_room(capsys, "books", "add", "i-2", "Persuasion", "--shelf", "novels")


# --- output -------------------------------------------------------------------------------------------------


def test_prints_text_unchanged_and_writes_to_the_configured_store(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = run_room(capsys, "books", "add", "i-1", "Emma", "--shelf", "maps")

    assert output == "Emma is on the shelf maps.\n"
    assert run_room_json(capsys, "books", "show", "i-1")["title"] == "Emma"


@pytest.mark.usefixtures("two_books")
def test_prints_one_item_by_its_members_and_in_json_by_stored_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = run_room(capsys, "books", "show", "i-1")

    assert [line.split() for line in shown.splitlines()] == [
        ["isbn", "i-1"],
        ["title", "Emma"],
        ["shelf", "novels"],
        ["boughtOn", "2026-02-04"],
    ]
    assert run_room_json(capsys, "books", "show", "i-1") == {
        "isbn": "i-1",
        "title": "Emma",
        "shelf": "novels",
        "boughtOn": "2026-02-04",
    }


@pytest.mark.usefixtures("two_books")
def test_prints_a_page_as_a_table_with_the_next_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    first = run_room(capsys, "books", "list", "--limit", "1")
    cursor = first.strip().rsplit(" ", 1)[1]
    rest = run_room_json(capsys, "books", "list", "--after", cursor)

    assert first.splitlines()[0].split() == ["isbn", "title", "shelf", "boughtOn"]
    assert "Emma" in first
    assert [each["title"] for each in rest["items"]] == ["Persuasion"]
    assert rest["cursor"] is None


def test_says_when_nothing_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_room(capsys, "books", "list", "--shelf", "maps") == "nothing\n"
    assert run_room_json(capsys, "books", "list", "--shelf", "maps") == {"items": [], "cursor": None}


def test_prints_a_list_as_a_table_without_empty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_room(capsys, "lend", "i-1", "i-2", "--days", "7", "--renew")

    assert [line.split() for line in shown.splitlines()] == [
        ["isbn", "days", "renew"],
        ["i-1", "7", "yes"],
        ["i-2", "7", "yes"],
    ]


def test_prints_items_too_wide_for_a_table_one_by_one_uncut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "i-" + "9" * 140
    shown = run_room(capsys, "lend", "i-1", long)

    assert [line.split() for line in shown.splitlines()][:4] == [
        ["isbn", "i-1"],
        ["days", "14"],
        ["renew", "no"],
        [],
    ]
    assert long in "".join(shown.split())


# --- untrusted text -----------------------------------------------------------------------------------------

STEERING = "\x1b]0;pwned\x07\x1b[2J\x1b[31mhi\u202e"
SHOWN = r"\x1b]0;pwned\x07\x1b[2J\x1b[31mhi\u202e"


def test_escapes_terminal_control_characters_and_json_keeps_them(capsys: pytest.CaptureFixture[str]) -> None:
    output = run_room(capsys, "books", "add", "i-1", STEERING, "--shelf", "novels")
    one, several = run_room(capsys, "books", "show", "i-1"), run_room(capsys, "books", "list")
    refused = run_room(capsys, "books", "show", STEERING, code=1)

    for each in (output, one, several, refused):
        assert SHOWN in each
        assert not {"\x1b", "\x07", "\u202e"} & set(each)
    assert run_room_json(capsys, "books", "show", "i-1")["title"] == STEERING
    assert "\u202e" in run_room(capsys, "books", "show", "i-1", "--json")


def test_table_with_escaped_text_fits_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_room(capsys, "books", "add", "i-1", "\x1b" * 40, "--shelf", "novels")

    shown = run_room(capsys, "books", "list")

    assert r"\x1b" * 40 in "".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 150


def test_prints_a_lone_surrogate_and_escapes_it_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert r"\udcff" in run_room(capsys, "lend", "i-\udcff")
    assert run_room_json(capsys, "lend", "i-\udcff")[0]["isbn"] == "i-\udcff"


def test_json_contains_no_invalid_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    class Reading(BaseModel):
        at: float

    print_result(
        [float("nan"), float("inf"), {"deep": float("-inf")}, Reading(at=float("nan")), 1.5], as_json=True
    )

    output = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert output == ["nan", "inf", {"deep": "-inf"}, {"at": "nan"}, 1.5]


# --- arguments ----------------------------------------------------------------------------------------------


def test_parses_times_numbers_and_json_by_their_types(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("since", "2026-02-04T01:00:00", "--price", "1.10", "--config", '{"a": [1]}')

    assert run_room_json(capsys, *given) == {
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
        (
            ("books", "add", "i-1", "Emma", "--shelf", "maps", "--bought-on", "Monday"),
            "a date such as 2026-02-04",
        ),
        (("since", "noon"), "a time such as 2026-02-04T01:00:00Z"),
        (("since", "2026-02-04T01:00:00Z", "--price", "dear"), "dear"),
        (("since", "2026-02-04T01:00:00Z", "--config", "[1]"), "dict"),
        (("books", "burn"), "burn"),
        (("burn",), "burn"),
        (("count", "--colour"), "--colour"),
    ],
)  # fmt: skip
def test_invalid_argument_exits_2_with_the_reason(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reason: str
) -> None:
    assert reason in run_room(capsys, *words, code=2)


def test_error_of_a_command_prints_one_line_and_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_room(capsys, "books", "show", "i-7", code=1) == "holdfast: There is no book i-7.\n"


def test_value_rejected_by_a_model_prints_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = run_room(capsys, "lend", "i-1", "--days", "0", code=1)

    assert output.startswith("holdfast: Invalid Loan: days: input should be a valid integer")


def test_command_runs_as_its_component(capsys: pytest.CaptureFixture[str]) -> None:
    output = run_room(capsys, "books", "steal", code=1)

    assert "visitor" in output
    assert "R3" in output
    assert run_room(capsys, "count") == "0\n"


def test_command_without_stores_leaves_the_folder_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def spell(word: str) -> dict[str, str]:
        """Spell a word."""
        if not word:
            raise InvalidRequest("Empty word: give one.")
        return {"spelt": " ".join(word)}

    commands = {"spell": Command(spell, needs_stores=False)}
    system = replace(reading_room.SYSTEM, admin=replace(reading_room.SYSTEM.admin, commands=commands))
    monkeypatch.setattr(reading_room, "SYSTEM", system)

    assert json.loads(run_room(capsys, "spell", "ox", "--json")) == {"spelt": "o x"}
    assert "Empty word" in run_room(capsys, "spell", "", code=1)
    assert list(tmp_path.iterdir()) == []


# --- help and loading ---------------------------------------------------------------------------------------


def test_help_lists_the_systems_without_loading_them(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_command(capsys, "--help")

    assert "Show the system readingroom" in shown
    assert "Show the system broken" in shown  # the system that cannot be loaded


def test_help_shows_commands_first_docstring_lines_and_parameter_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "list, show, add, steal" in run_room(capsys, "--help")
    shown = run_room(capsys, "books", "--help")
    assert "The books of a shelf." in shown
    assert "This line is not" not in shown
    assert "Which shelf." in run_room(capsys, "books", "list", "--help")


def test_help_shows_flags_without_a_type_and_values_by_what_is_typed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def close(
        stores: Any,
        days: list[date],
        at: datetime | None = None,
        fee: Decimal | None = None,
        notes: dict[str, str] | None = None,
        force: Annotated[bool, "At once."] = False,
        wait: bool = True,
        lock: bool | None = None,
        *,
        lights: bool,
    ) -> None:
        """Close the room."""

    system = replace(
        reading_room.SYSTEM, admin=replace(reading_room.SYSTEM.admin, commands={"room close": close})
    )

    with pytest.raises(SystemExit):
        build_system_app(system)(["room", "close", "--help"], prog_name="holdfast readingroom")

    shown = capsys.readouterr().out
    lines = [line.strip("│* ").split() for line in shown.splitlines()]
    by_name = {line[0]: line[1:] for line in lines if line}
    assert by_name["DAYS..."] == ["<date>", "[required]"]
    assert by_name["--at"] == ["<datetime>"]
    assert by_name["--fee"] == ["<float>"]
    assert by_name["--notes"] == ["<JSON>"]
    assert by_name["--force"] == ["At", "once."]
    assert by_name["--wait"] == ["--no-wait", "[default:", "wait]"]
    assert by_name["--lock"] == ["--no-lock"]
    assert by_name["--lights"] == ["--no-lights", "[required]"]
    assert by_name["--json"] == ["Print", "JSON."]
    assert by_name["--help"] == ["Show", "this", "message", "and", "exit."]


def test_no_help_shows_the_type_of_a_flag_or_an_internal_type(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], *([name] for commands in GROUPS.values() for name in commands)):
        shown = run_command(capsys, *words, "--help")
        assert not {"<bool>", "<Any>"} & set(shown.split()), words
        assert "<list[" not in shown, words


def test_holdfast_commands_load_no_system() -> None:
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


def test_help_of_a_system_without_commands_shows_what_it_is_and_the_general_commands_for_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = run_command(capsys, "shop", "--help")

    assert f"shop: {shop.SYSTEM.purpose}" in shown
    assert "holdfast tables shop " in shown
    # It declares none of these.
    assert all(f"holdfast {words}" not in shown for words in ("queues list", "flows list", "why", "migrate"))
    assert shown.strip() == run_command(capsys, "shop", code=2).strip()


def test_help_of_a_system_lists_its_own_commands_before_the_general_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = run_room(capsys, "--help")

    assert shown.index("list, show, add, steal") < shown.index("holdfast tables readingroom")


def test_general_commands_follow_from_what_the_system_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the systems that are really installed
    commands = list_general_commands(load_system("tripcortex"), get_command(app))

    words = {str(each.name) for each in commands}
    assert {"holdfast run tripcortex", "holdfast migrate tripcortex", "holdfast why tripcortex ID"} <= words
    assert {f"holdfast {each} list tripcortex" for each in ("queues", "outbox", "flows")} <= words
    assert {f"holdfast {each} tripcortex" for each in ("indexes status", "sample", "demo")} <= words
    assert {f"holdfast {each} tripcortex --out DIR" for each in ("docs", "iac TOOL", "iam")} <= words


def test_general_commands_name_mcp_only_for_a_system_with_the_component_agent() -> None:
    system, holdfast = shop.SYSTEM, get_command(app)
    with_agent = replace(system, components=(*system.components, Component(AGENT)))

    listed = [
        {str(each.name) for each in list_general_commands(each, holdfast)} for each in (system, with_agent)
    ]
    assert listed[1] - listed[0] == {"holdfast mcp shop"}


def test_help_is_shown_if_the_demo_fails_to_load(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(system: System) -> None:
        raise DeclarationError("Loading the demo failed.")

    monkeypatch.setattr("holdfast.model.demo.find_demo", fail)

    shown = run_command(capsys, "shop", "--help")
    assert "holdfast tables shop " in shown and "holdfast sample" not in shown


def test_command_of_a_system_without_commands_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert "shop declares no commands" in run_command(capsys, "shop", "orders", "list", code=2)


def test_suggests_the_name_of_a_system_and_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Did you mean 'readingroom'?" in run_command(capsys, "readingrom", "--help", code=2)
    assert "Did you mean 'books'?" in run_room(capsys, "boks", code=2)
    assert "No such command 'nothing'" in run_command(capsys, "nothing", code=2)


def test_a_system_that_cannot_be_loaded_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no_such_module" in run_command(capsys, "broken", "books", code=1)


def test_system_named_like_a_command_does_not_replace_it_and_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("check", "tests.unit.cli.reading_room:SYSTEM", installed_systems.ENTRY_POINT_GROUP)
    monkeypatch.setattr(installed_systems, "find_entry_points", lambda: {"check": point})

    assert run_command(capsys, "--help").count("Check the design of a system") == 1
    assert "The commands of the system check cannot be called" in run_command(capsys, "systems")


# --- invalid declarations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "Books", "books  list", "books list!", "-x"])
def test_rejects_an_untypable_name(name: str) -> None:
    with pytest.raises(DeclarationError, match="Invalid command name"):
        replace(
            reading_room.SYSTEM, admin=replace(reading_room.SYSTEM.admin, commands={name: reading_room.count})
        )


def test_rejects_a_command_that_is_also_a_group() -> None:
    both: Mapping[str, Any] = {"books": reading_room.count, "books list": reading_room.list_books}
    with pytest.raises(DeclarationError, match="the first is also a group"):
        replace(reading_room.SYSTEM, admin=replace(reading_room.SYSTEM.admin, commands=both))


def test_rejects_an_unknown_component() -> None:
    with pytest.raises(DeclarationError, match="Unknown component cellar"):
        replace(
            reading_room.SYSTEM,
            admin=replace(
                reading_room.SYSTEM.admin, commands={"count": Command(reading_room.count, component="cellar")}
            ),
        )


def test_rejects_a_function_without_stores() -> None:
    async def nothing() -> None: ...

    with pytest.raises(DeclarationError, match="has no parameter for the stores"):
        build_parameters("room nothing", nothing)


def test_command_remains_callable_as_a_function() -> None:
    async def given(stores: Any, name: str) -> str:
        return f"{stores} {name}"

    awaited = Command(given, component="visitor")("stores", name="Ada")
    with pytest.raises(StopIteration, match="stores Ada"):
        awaited.__await__().send(None)
