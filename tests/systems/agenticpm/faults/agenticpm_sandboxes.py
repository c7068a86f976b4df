"""Program that runs the sandboxes in a process that is never killed, for `test_agenticpm_killed.py`.

    python -m tests.systems.agenticpm.faults.agenticpm_sandboxes FOLDER CLOCK

Prints the address of each as one line of JSON and runs until its standard input is closed. The ledgers in the
folder record every effect.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path

from holdfast.core.clock import RunClock
from holdfast.web import serve_in_thread
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app
from holdfast_demo.agenticpm.sandbox.outlook import OutlookSandbox, build_outlook_app
from holdfast_demo.agenticpm.sandbox.resend import ResendSandbox, build_resend_app


def main(folder: str, clock_file: str) -> None:
    """Serve the sandboxes, with ledgers in the folder and the given clock, until standard input closes."""
    clock, ledgers = RunClock(Path(clock_file)), Path(folder)
    apps = {
        "jira": build_jira_app(JiraSandbox(clock=clock, folder=ledgers)),
        "outlook": build_outlook_app(OutlookSandbox(clock=clock)),
        "resend": build_resend_app(ResendSandbox(clock=clock, folder=ledgers)),
    }
    with ExitStack() as stack:
        urls = {name: stack.enter_context(serve_in_thread(app)) for name, app in apps.items()}
        sys.stdout.write(json.dumps(urls) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
