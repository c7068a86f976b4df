"""A forked child process cannot use its parent's database, and does not disturb the parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
# In a separate process, because a test runner has threads, and this test forks a process with threads.
FORKING = """
import os, sys, threading
from holdfast.core.errors import SettingsError, StoreClosed
from tests.unit.stores.sqlite.pairs import numbers_in, open_pairs, pair

path = sys.argv[1]
database = open_pairs(path)
database.write(pair(1))
assert numbers_in(database) == {1}
child = os.fork()
if child == 0:
    told = 0
    uses = [lambda: database.write(pair(2)), database.reader, database.read_connection, database.snapshot]
    if path != ":memory:":
        uses.append(lambda: open_pairs(path))
    for use in uses:
        try:
            use()
        except (SettingsError, StoreClosed) as error:
            told += "opened before this process was forked" in str(error)
    database.close()
    sys.exit(told)
_, status = os.waitpid(child, 0)
database.write(pair(4))
print(os.waitstatus_to_exitcode(status), sorted(numbers_in(database)))
database.close()
"""


@pytest.mark.parametrize(("path", "refusals"), [("pairs.db", 5), (":memory:", 4)])
def test_child_is_refused_and_parent_continues(tmp_path: Path, path: str, refusals: int) -> None:
    where = path if path == ":memory:" else str(tmp_path / path)
    assert _run_script(FORKING, where) == f"{refusals} [1, 4]\n"
    assert sorted(os.listdir(tmp_path)) == (
        []
        if path == ":memory:"
        else [".pairs.db.identity", *(f"pairs.db{end}" for end in ("", "-next", "-shm", "-turn", "-wal"))]
    )


CLOSING_FIRST = """
import os, sys
from tests.unit.stores.sqlite.pairs import numbers_in, open_pairs, pair

before = open_pairs(sys.argv[1])
before.write(pair(1))
before.close()
if os.fork() == 0:
    with open_pairs(sys.argv[1]) as own:
        own.write(pair(2))
    sys.exit()
os.wait()
with open_pairs(sys.argv[1]) as after:
    print(sorted(numbers_in(after)))
"""


def test_a_file_closed_before_the_fork_can_be_opened_in_the_child(tmp_path: Path) -> None:
    assert _run_script(CLOSING_FIRST, str(tmp_path / "pairs.db")) == "[1, 2]\n"


def _run_script(script: str, path: str) -> str:
    """Run the script in another process and return its output; fail if it writes an error."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.stdout
