"""The sandboxes of portal and token issuer in a process that is never killed, for the fault tests.

    python -m tests.systems.tripcortex.faults.tripcortex_services FOLDER CLOCK

Prints the address of each service in one line of JSON, and lives until its standard input is closed. The
portal's ledger is in the folder and is the truth about sales. This portal deduplicates nothing: a reference
requested twice is sold twice.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path

from holdfast.core.clock import RunClock
from holdfast.web import serve_in_thread
from holdfast_demo.tripcortex.sandbox import PORTAL_KEY
from holdfast_demo.tripcortex.sandbox.issuer import IssuerSandbox, build_issuer_app
from holdfast_demo.tripcortex.sandbox.portal import PortalSandbox, build_portal_app


def main(folder: str, clock_file: str) -> None:
    """Serve both sandboxes until standard input is closed; print their URLs first."""
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
