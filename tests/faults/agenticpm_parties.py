"""The outside parties of AgenticPM in a process of their own, which nobody kills: for `test_agenticpm_killed.py`.

    python -m tests.faults.agenticpm_parties FOLDER CLOCK

Says in one line of JSON where each of them answers, and lives until its standard input is closed. Their ledgers are in the
folder: what they say took effect did.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path

from agenticpm.sandbox.jira import JiraSandbox, jira_app
from agenticpm.sandbox.outlook import OutlookSandbox, outlook_app
from agenticpm.sandbox.resend import ResendSandbox, resend_app
from holdfast.clock import RunClock
from holdfast.web import serving


def main(folder: str, clock_file: str) -> None:
    clock, ledgers = RunClock(Path(clock_file)), Path(folder)
    apps = {
        "jira": jira_app(JiraSandbox(clock=clock, folder=ledgers)),
        "outlook": outlook_app(OutlookSandbox(clock=clock)),
        "resend": resend_app(ResendSandbox(clock=clock, folder=ledgers)),
    }
    with ExitStack() as stack:
        urls = {name: stack.enter_context(serving(app)) for name, app in apps.items()}
        sys.stdout.write(json.dumps(urls) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
