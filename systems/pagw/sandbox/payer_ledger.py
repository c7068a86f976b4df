"""What the sandbox payer has done, in the order it took effect: lines of a file, of which its whole state is made again.

A line is with the operating system before the effect is answered, so it outlives the process, however that ends. It has
references, codes and decisions, and nothing of a patient.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

Entry = dict[str, Any]
FILE: Final = "payer.jsonl"


class PayerLedger:
    """Entries, oldest first: those of former processes on the same folder come first. Without a folder, in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.entries: list[Entry] = []
        self._path = None if folder is None else folder / FILE
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self.entries += _whole_lines(self._path)

    def add(self, what: str, at: str, **told: Any) -> Entry:
        entry = {"number": len(self.entries) + 1, "what": what, "at": at, **told}
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(json.dumps(entry).encode() + b"\n")
        self.entries.append(entry)
        return entry


def _whole_lines(path: Path) -> list[Entry]:
    """One that was cut off by the end of a process took no effect, and is taken away."""
    if not path.exists():
        return []
    whole, end, rest = path.read_bytes().rpartition(b"\n")
    if rest:
        os.truncate(path, len(whole) + len(end))
    return [json.loads(line) for line in whole.splitlines() if line]
