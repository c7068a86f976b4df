"""`holdfast scan`: exit 1 on a find, the configured data where no path is named, needles from a file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from holdfast import Attr, Entity, Key, Table, attr, create_tables, open_stores
from holdfast.cli import main

letters = Table("Letters", "id")


class Letter(Entity, table=letters):
    id: Attr[str] = attr()
    text: Attr[str] = attr(default="")

    of = Key(id)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def scan(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as exited:
        main(["scan", *arguments])
    told = capsys.readouterr()
    return int(exited.value.code or 0), told.out + told.err


def keep(text: str) -> None:
    async def kept() -> None:
        async with open_stores() as stores:
            await create_tables(stores, [letters])
            await stores.run(Letter.put(Letter(id="1", text=text)))

    asyncio.run(kept())


def test_the_configured_data_is_scanned_and_a_find_is_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    keep("write to joe.bloggs@example.com")

    code, told = scan(capsys, "--json")

    (found,) = json.loads(told)
    assert code == 1
    assert (Path(found["file"]).name, found["kind"], found["sample"]) == ("tables.db", "email", "***@***")


def test_nothing_found_is_exit_0(capsys: pytest.CaptureFixture[str]) -> None:
    keep("nothing of note")

    code, told = scan(capsys, "data")

    assert (code, told) == (0, "nothing found in data\n")


def test_needles_are_given_or_read_from_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("app.log").write_text("zoë called\nabout shoes\n", encoding="utf-8")
    Path("needles.txt").write_text("nowhere\nabout shoes\n", encoding="utf-8")

    code, told = scan(capsys, "app.log", "--needle", "zoë", "--needles", "needles.txt")

    assert code == 1
    assert "2 found in app.log" in told
    assert "zoë" not in told


def test_what_is_allowed_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    Path("app.log").write_text("from support@shop.example", encoding="utf-8")

    assert scan(capsys, "app.log")[0] == 1
    assert scan(capsys, "app.log", "--allow", "*@shop.example")[0] == 0


def test_says_what_cannot_be_scanned(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give the files or folders to scan" in scan(capsys)[1]
    assert "nothing to scan at nowhere" in scan(capsys, "nowhere")[1]
    assert scan(capsys, ".", "--needle", "")[0] == 2
