"""The sandbox payer's ledger: a file with one line per effect, in order, from which its state is rebuilt.

A line is written before the effect is acknowledged, so it survives the end of the process. It contains
references, codes and decisions, and no patient data.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

Entry = dict[str, Any]
FILE: Final = "payer.jsonl"


class PayerLedger:
    """The entries, oldest first, including those of earlier processes on the same folder. Without a folder,
    in memory.
    """

    def __init__(self, folder: Path | None, file: str = FILE) -> None:
        self.entries: list[Entry] = []
        self._path = None if folder is None else folder / file
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self.entries += _read_complete_lines(self._path)

    def add(self, entry_type: str, at: str, **fields: Any) -> Entry:
        """Append an entry and write it to the file."""
        entry = {"number": len(self.entries) + 1, "what": entry_type, "at": at, **fields}
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(json.dumps(entry).encode() + b"\n")
        self.entries.append(entry)
        return entry


def _read_complete_lines(path: Path) -> list[Entry]:
    """Return the complete lines. Remove a line that the end of a process cut off: it took no effect."""
    if not path.exists():
        return []
    whole, end, rest = path.read_bytes().rpartition(b"\n")
    if rest:
        os.truncate(path, len(whole) + len(end))
    return [json.loads(line) for line in whole.splitlines() if line]
