"""A forked child is told that its parent's database is not its own, and cannot disturb the parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# In a process of its own: a test runner has threads, and forking those is what this is about.
FORKING = """
import os, sys, threading
from holdfast.errors import StoreClosed
from tests.unit.sqlite.pairs import numbers_in, open_pairs, pair

path = sys.argv[1]
database = open_pairs(path)
database.write(pair(1))
assert numbers_in(database) == {1}
child = os.fork()
if child == 0:
    told = 0
    for use in (lambda: database.write(pair(2)), database.reader, database.reading, database.snapshot):
        try:
            use()
        except StoreClosed as error:
            told += "opened before this process was forked" in str(error)
    database.close()
    if path != ":memory:":
        with open_pairs(path) as own:
            own.write(pair(3))
    sys.exit(told)
_, status = os.waitpid(child, 0)
database.write(pair(4))
print(os.waitstatus_to_exitcode(status), sorted(numbers_in(database)))
database.close()
"""


@pytest.mark.parametrize(("path", "numbers"), [("pairs.db", [1, 3, 4]), (":memory:", [1, 4])])
def test_a_child_is_refused_and_the_parent_goes_on(tmp_path: Path, path: str, numbers: list[int]) -> None:
    where = path if path == ":memory:" else str(tmp_path / path)
    done = subprocess.run(
        [sys.executable, "-c", FORKING, where],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"4 {numbers}\n", "")
    assert sorted(os.listdir(tmp_path)) == (
        [] if path == ":memory:" else ["pairs.db", "pairs.db-next", "pairs.db-turn"]
    )
