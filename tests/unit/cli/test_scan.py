"""`holdfast scan`: exit 1 if something is found, the configured data by default, needles from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast import Attr, Entity, Key, Table, attr, open_stores
from holdfast.cli import main
from holdfast.runtime import create_tables

letters = Table("Letters", "id")


class Letter(Entity, table=letters):
    id: Attr[str] = attr()
    text: Attr[str] = attr(default="")

    of = Key(id)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def scan(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run `holdfast scan` and return its exit code and output."""
    with pytest.raises(SystemExit) as exited:
        main(["scan", *arguments])
    output = capsys.readouterr()
    return int(exited.value.code or 0), output.out + output.err


async def keep(text: str) -> None:
    """Store a letter with this text in the configured tables."""

    async def put() -> None:
        async with open_stores() as stores:
            await create_tables(stores, [letters])
            await stores.run(Letter.put(Letter(id="1", text=text)))

    await put()


async def test_scans_the_configured_data_and_exits_1_on_a_find(capsys: pytest.CaptureFixture[str]) -> None:
    await keep("write to joe.bloggs@example.com")

    code, output = scan(capsys, "--json")

    (found,) = json.loads(output)
    assert code == 1
    assert (Path(found["file"]).name, found["kind"], found["sample"]) == ("tables.db", "email", "***@***")


async def test_exits_0_if_nothing_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    await keep("nothing of note")

    code, output = scan(capsys, "data")

    assert (code, output) == (0, "nothing found in data\n")


def test_reads_needles_from_arguments_or_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("app.log").write_text("zoë called\nabout shoes\n", encoding="utf-8")
    Path("needles.txt").write_text("nowhere\nabout shoes\n", encoding="utf-8")

    code, output = scan(capsys, "app.log", "--needle", "zoë", "--needles", "needles.txt")

    assert code == 1
    assert "2 found in app.log" in output
    assert "zoë" not in output


def test_omits_values_that_match_an_allowed_text(capsys: pytest.CaptureFixture[str]) -> None:
    Path("app.log").write_text("from support@shop.example", encoding="utf-8")

    assert scan(capsys, "app.log")[0] == 1
    assert scan(capsys, "app.log", "--allow", "*@shop.example")[0] == 0


def test_rejects_missing_paths_and_an_empty_needle(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give the files or folders to scan" in scan(capsys)[1]
    assert "nothing to scan at nowhere" in scan(capsys, "nowhere")[1]
    assert scan(capsys, ".", "--needle", "")[0] == 2
