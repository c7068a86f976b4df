"""Generator of the archives `library` (closed cleanly) and `library_killed` (after `kill -9`).

Run by hand: `python -m tests.corpus.write_library tests/corpus/v0_1`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.corpus.archive import SUFFIX, pack, save_notes
from tests.corpus.library.system import write_library

CLEAN, KILLED = "library", "library_killed"
NOTES = "notes.json"


def main(folder: Path) -> None:
    """Write both archives and their notes into `folder`."""
    for name in (CLEAN, KILLED):
        with tempfile.TemporaryDirectory() as place:
            data = Path(place, "data")
            data.mkdir()
            # In its own process, because one of the two is killed.
            ended = subprocess.run([sys.executable, "-m", __spec__.name, name, place], check=False)
            expected = 0 if name == CLEAN else -signal.SIGKILL
            if ended.returncode != expected:
                raise RuntimeError(f"The writer of {name} ended with {ended.returncode}, not {expected}.")
            if name == KILLED and not (data / "tables.db-wal").stat().st_size:
                raise RuntimeError("The killed process left no write-ahead log.")
            pack(data, folder / f"{name}{SUFFIX}", checkpoint=name == CLEAN)
            save_notes(folder, name, json.loads(Path(place, NOTES).read_text()))


async def write(name: str, place: Path) -> None:
    """Write a data folder and its notes; then close it, or die."""
    stores, notes = await write_library(place / "data")
    (place / NOTES).write_text(json.dumps(notes))
    if name == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    await stores.close()


if __name__ == "__main__":
    if sys.argv[1] in (CLEAN, KILLED):
        asyncio.run(write(sys.argv[1], Path(sys.argv[2])))
    else:
        main(Path(sys.argv[1]))
