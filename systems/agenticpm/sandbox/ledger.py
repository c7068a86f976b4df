"""What reached a stand-in, in the order it took effect: in memory, and in a file where a folder is given.

Tests believe the ledger. A line is written before the effect is answered, so that it outlives the process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


class Ledger:
    """Effects, oldest first: those of former processes on the same file come first."""

    def __init__(self, folder: Path | None, name: str, now: Callable[[], str]) -> None:
        self.entries: list[Entry] = []
        self._now = now
        self._path = None if folder is None else folder / f"{name}.jsonl"
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self.entries += _read(self._path)

    def add(self, what: str, **told: Any) -> Entry:
        entry = {"number": len(self.entries) + 1, "what": what, "at": self._now(), **told}
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        self.entries.append(entry)
        return entry

    def close(self) -> None:
        """For stand-ins that are ended: nothing is held open between two effects, so there is nothing to do."""


def _read(path: Path) -> list[Entry]:
    """Whole lines: one that was cut off by the end of a process took no effect."""
    if not path.exists():
        return []
    whole, cut, rest = path.read_text(encoding="utf-8").rpartition("\n")
    if rest:
        path.write_text(whole + cut, encoding="utf-8")
    return [json.loads(line) for line in whole.splitlines() if line]
