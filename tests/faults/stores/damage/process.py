"""A process with the stores of a data folder open: one command per line of input, one JSON answer per line.

put tables 7       write the item 7       → ["acknowledged"] or ["refused", its error]
read tables 7 8    read items             → [a letter for each, the errors]
move               move the logs into the files
close              close the stores
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from holdfast.core.errors import HoldfastError, InternalError
from tests.faults.stores.damage.contents import Folder


def main(path: str) -> None:
    """Open the stores and answer commands until the input ends."""
    folder = Folder(Path(path))
    for line in sys.stdin:
        try:
            answer = _run(folder, *line.split())
        except InternalError:
            raise
        except HoldfastError as error:
            answer = ["refused", error.message]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _run(folder: Folder, command: str, store: str = "", *numbers: str) -> list[object]:
    """Run one command and return its answer."""
    match command:
        case "put":
            folder.put(store, int(numbers[0]))
            return ["acknowledged"]
        case "read":
            return [*folder.read(store, [int(each) for each in numbers])]
        case "move":
            folder.move_logs()
        case "close":
            folder.close()
    return ["done"]
