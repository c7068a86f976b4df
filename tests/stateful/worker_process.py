"""One of several processes on a tables file: it answers each line of JSON with a line of JSON.

    python -m tests.stateful.worker_process FILE CLOCK

It ends when its input ends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from holdfast.core.clock import RunClock
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

from .drivers import run_request, wait_until_settled


def main(path: str, clock: str) -> None:
    with open_tables(path, clock=RunClock(Path(clock))) as tables:
        for line in sys.stdin:
            sys.stdout.write(json.dumps(_reply(tables, json.loads(line))) + "\n")
            sys.stdout.flush()


def _reply(tables: EmbeddedTables, question: dict[str, Any]) -> dict[str, Any]:
    """Wait until background work is done if asked to, otherwise run the request."""
    if "settle" in question:
        wait_until_settled(tables)
        return {"answer": {}}
    return run_request(tables, question["operation"], json.dumps(question["request"]).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
