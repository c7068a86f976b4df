"""The ledger of a sandbox: every effect in order, in memory and, if a folder is given, in a JSON Lines file.

Tests rely on the ledger. A line is written before the response is sent, so that it survives the process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


class Ledger:
    """Effects, oldest first, including those of earlier processes on the same file.

    `name` is the file's name, `now` returns the time of an entry.
    """

    def __init__(self, folder: Path | None, name: str, now: Callable[[], str]) -> None:
        self.entries: list[Entry] = []
        self._now = now
        self._path = None if folder is None else folder / f"{name}.jsonl"
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self.entries += _load_entries(self._path)

    def add(self, what: str, **fields: Any) -> Entry:
        """Add an effect of the kind `what` with its number and time, and return the entry."""
        entry = {"number": len(self.entries) + 1, "what": what, "at": self._now(), **fields}
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        self.entries.append(entry)
        return entry

    def close(self) -> None:
        """Do nothing: no file stays open between two effects."""


def _load_entries(path: Path) -> list[Entry]:
    """Load the complete lines, and remove a line cut off by the end of a process: it took no effect."""
    if not path.exists():
        return []
    whole, cut, rest = path.read_text(encoding="utf-8").rpartition("\n")
    if rest:
        path.write_text(whole + cut, encoding="utf-8")
    return [json.loads(line) for line in whole.splitlines() if line]
