"""Sandboxes of PAGW's external services in one process that the fault tests never kill.

    python -m tests.systems.pagw.faults.pagw_external_services FOLDER CLOCK

Prints one line of JSON with the address of each service and runs until its standard input is closed. Their
ledgers are in the folder. This payer also records every repeated request to act: it recognises the reference,
which another payer might not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from holdfast.core.clock import RunClock
from holdfast.web import serve_in_thread
from holdfast_demo.pagw.sandbox import CLIENT_ID, CLIENT_SECRET
from holdfast_demo.pagw.sandbox.client import Behaviour, ClientSandbox, build_client_app
from holdfast_demo.pagw.sandbox.issuer import IssuerSandbox, build_issuer_app
from holdfast_demo.pagw.sandbox.payer import PayerSandbox, build_payer_app
from holdfast_demo.pagw.sandbox.payer_state import Authorization, AuthorizationRequest, PayerState

REPEATED: Final = "repeated"
# By the run clock: short enough that a callback may arrive before the first answer is recorded.
DECIDE_AFTER_S: Final = 6.0
TOKEN_LIFE_S: Final = 120.0
# Longer than a whole run: these tests are not about expiring tokens.
CLIENT_TOKEN_LIFE_S: Final = 10**7


class RecordingPayerState(PayerState):
    """Payer state that records in the ledger every repeated request to act."""

    def act(
        self, request: AuthorizationRequest, body: Mapping[str, Any], former: str, decide_after_s: float
    ) -> Authorization:
        if request.reference in self.authorizations:
            self._write(REPEATED, reference=request.reference)
        return super().act(request, body, former, decide_after_s)


def main(folder: str, clock_file: str) -> None:
    """Serve the sandboxes, print their addresses as JSON, and run until standard input is closed."""
    clock, ledgers = RunClock(Path(clock_file)), Path(folder)
    payer = PayerSandbox(
        clock=clock,
        folder=ledgers,
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        token_life_s=TOKEN_LIFE_S,
        decide_after_s=DECIDE_AFTER_S,
    )
    payer.state = RecordingPayerState(clock, ledgers)
    apps = {
        "payer": build_payer_app(payer),
        "issuer": build_issuer_app(
            IssuerSandbox(clock=clock, folder=ledgers, lifetime_s=CLIENT_TOKEN_LIFE_S)
        ),
        "client": build_client_app(ClientSandbox(clock=clock, folder=ledgers)),
        # A client whose server is permanently gone.
        "gone": build_client_app(ClientSandbox(clock=clock, behaviour=Behaviour(is_gone=True))),
    }
    with ExitStack() as stack:
        urls = {name: stack.enter_context(serve_in_thread(app)) for name, app in apps.items()}
        sys.stdout.write(json.dumps(urls) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
