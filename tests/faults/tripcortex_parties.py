"""The outside parties of Trip Cortex in a process of their own, which nobody kills: for the `test_tripcortex_….py` beside it.

    python -m tests.faults.tripcortex_parties FOLDER CLOCK

Says in one line of JSON where each of them answers, and lives until its standard input is closed. The portal's ledger is in the
folder: what it says was sold was. This portal deduplicates nothing; a reference that is asked for twice is sold twice.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path

from holdfast.core.clock import RunClock
from holdfast.web import serve_in_thread
from tripcortex.demo.sandbox import PORTAL_KEY
from tripcortex.demo.sandbox.issuer import IssuerSandbox, build_issuer_app
from tripcortex.demo.sandbox.portal import PortalSandbox, build_portal_app


def main(folder: str, clock_file: str) -> None:
    clock, ledgers = RunClock(Path(clock_file)), Path(folder)
    apps = {
        "portal": build_portal_app(PortalSandbox(clock=clock, folder=ledgers, api_key=PORTAL_KEY)),
        "issuer": build_issuer_app(IssuerSandbox(clock=clock, folder=ledgers)),
    }
    with ExitStack() as stack:
        urls = {name: stack.enter_context(serve_in_thread(app)) for name, app in apps.items()}
        sys.stdout.write(json.dumps(urls) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
