"""A process that writes through the committer is killed at random: every acknowledged pair is in the file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random, SystemRandom

from tests.unit.stores.sqlite.pairs import numbers_in, open_pairs, pair

ROOT = Path(__file__).parents[3]
KILLS = 60 if os.environ.get("HOLDFAST_SOAK") == "1" else 6
NUMBERS_EACH = 1_000_000


def test_every_acknowledged_pair_is_in_the_file_after_each_kill(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    path = tmp_path / "pairs.db"
    acknowledged: set[int] = set()
    for round_ in range(KILLS):
        acknowledged |= write_until_killed(path, round_ * NUMBERS_EACH, random.randrange(1, 400))
        with open_pairs(path) as database:
            assert database.check() == []
            assert acknowledged <= numbers_in(database)
            # The dead process held or awaited the turn: neither blocks the next one.
            database.write(pair(-1 - round_))


def write_until_killed(path: Path, first: int, count: int) -> set[int]:
    """Run a writer that starts at number `first`, kill it after `count` lines, and return the acknowledged
    numbers.
    """
    command = [
        sys.executable,
        "-m",
        "tests.unit.stores.sqlite.writer_process",
        str(path),
        str(first),
        "4",
        "100000",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.stdin.write(b"\n")
        process.stdin.flush()
        lines = [process.stdout.readline() for _ in range(count)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    return {int(line) for line in lines}
