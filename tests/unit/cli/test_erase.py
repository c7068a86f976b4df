"""`holdfast erase` on embedded tables: it asks first, only counts on a dry run, and writes a proof."""

from __future__ import annotations

import asyncio
import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from holdfast import open_stores
from holdfast.cli import main
from holdfast.core import installed_systems
from holdfast.guarantees import is_proof_intact
from holdfast.runtime import create_tables
from tests.unit.guarantees.privacy.help_desk import HELP_DESK, Conversation, Note

JOE = "conversation-joe-0001"


@pytest.fixture(autouse=True)
async def _with_a_help_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder with the help desk as the only system, and Joe's conversation with a note."""
    monkeypatch.chdir(tmp_path)
    point = EntryPoint(
        "helpdesk", "tests.unit.guarantees.privacy.help_desk:SYSTEM", installed_systems.ENTRY_POINT_GROUP
    )
    monkeypatch.setattr(installed_systems, "find_entry_points", lambda: {"helpdesk": point})

    async with open_stores() as stores:
        await create_tables(stores, HELP_DESK.tables)
        await stores.run(Conversation.put(Conversation(conversation_id=JOE)))
        await stores.run(Note.put(Note(conversation_id=JOE, note_id="n1")))


def erase(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run `holdfast erase` for Joe's conversation and return its exit code and output."""
    with pytest.raises(SystemExit) as exited:
        main(["erase", "helpdesk", JOE, *arguments])
    output = capsys.readouterr()
    return int(exited.value.code or 0), output.out + output.err


def count_notes() -> int:
    """Return the number of notes in Joe's conversation."""

    async def count() -> int:
        async with open_stores() as stores:
            return len(await stores.all(Note.of(JOE).query()))

    return asyncio.run(count())


def test_erases_nothing_without_consent(capsys: pytest.CaptureFixture[str]) -> None:
    code, output = erase(capsys)

    assert code == 2
    assert "add --yes" in output
    assert count_notes() == 1


def test_dry_run_only_counts(capsys: pytest.CaptureFixture[str]) -> None:
    code, output = erase(capsys, "--dry-run", "--json")

    proof: dict[str, Any] = json.loads(output)
    assert (code, proof["dry_run"], proof["deleted"]) == (0, True, {"Notes": 1, "Conversations": 1})
    assert count_notes() == 1


def test_erases_the_data_and_writes_the_proof(capsys: pytest.CaptureFixture[str]) -> None:
    code, output = erase(capsys, "--yes", "--out", "proof.json")

    proof = json.loads(Path("proof.json").read_text(encoding="utf-8"))
    assert code == 0
    assert is_proof_intact(proof)
    assert proof["sha256"] in output
    assert "queue jobs" in output
    assert count_notes() == 0


def test_error_lists_the_kinds_that_the_system_knows(capsys: pytest.CaptureFixture[str]) -> None:
    code, output = erase(capsys, "--yes", "--kind", "planet")

    assert code == 1
    assert "it knows conversation" in output


def test_rejects_in_memory_stores(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TABLES", "sqlite::memory:")

    assert "nothing to erase" in erase(capsys, "--yes")[1]
