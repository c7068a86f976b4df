"""Files of released versions that several processes open at once: nothing is lost, and each process works."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.core.progress import ignore_progress
from holdfast.stores.queues.embedded.verification import verify_queues
from holdfast.stores.tables.embedded.storage.verification import verify_tables
from tests.corpus.archive import SUFFIX, list_releases_with, unpack
from tests.corpus.opener import count_all
from tests.processes import Process, preload

preload("tests.corpus.opener")

PROCESSES = 4


@pytest.mark.parametrize("name", ["library", "library_killed"])
@pytest.mark.parametrize("release", list_releases_with("library_killed"), ids=lambda path: str(path.name))
def test_older_folder_is_opened_by_several_processes_at_once(
    release: Path, name: str, tmp_path: Path
) -> None:
    for folder in ("alone", "together"):
        unpack(release / f"{name}{SUFFIX}", tmp_path / folder)
    expected = count_all(tmp_path / "alone")
    assert sum(expected.values()) > 100
    with ExitStack() as running:
        processes = [
            running.enter_context(Process("tests.corpus.opener", str(tmp_path / "together")))
            for _ in range(PROCESSES)
        ]
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.send_line("go")
        found = [process.stdout.readline() or process.read_log() for process in processes]
    assert found == [json.dumps(expected) + "\n"] * PROCESSES
    assert verify_tables(str(tmp_path / "together" / "tables.db"), ignore_progress) == []
    assert verify_queues(str(tmp_path / "together" / "queues.db"), ignore_progress) == []
