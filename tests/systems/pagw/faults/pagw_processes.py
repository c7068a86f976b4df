"""The gateway's API, pipeline, PostgreSQL and external services as processes, for the fault tests.

API and pipeline may get a crash point (`pagw_crash_points.py`), and are replaced when they are dead.
PostgreSQL is killed too, and restarted by the first process that finds it down.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from holdfast.core.clock import RunClock
from holdfast_demo.pagw.sandbox import (
    CLIENT_ID,
    CLIENT_SECRET,
    PAS_CALLBACK_SECRET,
    PAS_PAYER_ID,
    PAS_PAYER_VARIABLE,
    PAYER_VARIABLE,
    build_variables,
)
from holdfast_demo.pagw.sandbox.client import Behaviour, ClientSandbox, build_client_app
from holdfast_demo.pagw.sandbox.issuer import IssuerSandbox, build_issuer_app
from holdfast_demo.pagw.sandbox.pas_payer import PasPayerSandbox, build_pas_payer_app
from holdfast_demo.pagw.sandbox.payer import PayerSandbox, build_payer_app
from holdfast_demo.pagw.sandbox.payer_state import Authorization, AuthorizationRequest, PayerState
from pagw.system import SYSTEM
from pagw.workers.stages.base_stage import PROCESS
from tests.processes import Process, preload
from tests.system_processes import SystemProcesses

from .pagw_crash_points import VARIABLE

START: Final = datetime(2026, 11, 10, 10, tzinfo=UTC)
# Longer than in other tests: the lease of a payer call is a minute.
JUMP_S: Final = 5.0
CRASHING: Final = "tests.systems.pagw.faults.pagw_crash_points"
COMPONENTS: Final = {
    "api": ("api", "payer-callbacks"),
    "pipeline": tuple(each.name for each in SYSTEM.components if each.process == PROCESS),
}
REPEATED: Final = "repeated"
# By the run clock: short enough that a callback may arrive before the first answer is recorded.
DECIDE_AFTER_S: Final = 6.0
TOKEN_LIFE_S: Final = 120.0
# Longer than a whole run: these tests are not about expiring tokens.
CLIENT_TOKEN_LIFE_S: Final = 10**7

preload(
    __name__,
    CRASHING,
    "pagw.api.routes",
    "alembic.command",
    "sqlalchemy.dialects.postgresql.psycopg",
    "tests.systems.pagw.faults.pagw_preload",
)


class PagwProcesses(SystemProcesses):
    """Processes of one run. Entering starts the external services; `add` starts the rest."""

    def __init__(self, folder: Path, *, apis: int = 1) -> None:
        super().__init__(
            SYSTEM,
            folder,
            START,
            sandboxes=build_sandboxes,
            jump_s=JUMP_S,
            servers=apis,
            with_postgres=True,
            PAGW_RATE_LIMIT="1000000",
            PAGW_ANSWER_WAIT_S="2",
        )

    def __enter__(self) -> Self:
        super().__enter__()
        self.clock.watch(self.postgres / "server" / "pg_wal")
        own = build_variables(self.urls, self.servers[0])
        payers = {PAYER_VARIABLE: self.urls["payer"], PAS_PAYER_VARIABLE: self.urls["pas-payer"]}
        self.variables = {**own, **payers, **self.variables}
        # It reads the keys of the sandbox.
        self._issuer = IssuerSandbox(
            clock=self.clock.run, folder=self.ledgers, lifetime_s=CLIENT_TOKEN_LIFE_S
        )
        return self

    def mint_token(self, tenant: str) -> str:
        """Return a token of the tenant's client, valid for the whole run."""
        return self._issuer.mint_token(tenant)

    def subscribe_to_payer(self) -> None:
        """Subscribe the gateway to the decisions of the payer that speaks PAS."""
        url = f"{self.servers[0]}/payer-callbacks/{PAS_PAYER_ID}/notifications"
        self.post("pas-payer", "/sandbox/subscriptions", {"url": url, "secret": PAS_CALLBACK_SECRET})

    def add(self, name: str, crash_point: str = "") -> Process:
        """Start the worker of this name, "api NUMBER" or "pipeline NUMBER", with a crash point if given."""
        kind, number = name.split()
        address = self.servers[int(number)] if kind == "api" else ""
        return self.add_worker(
            name, *COMPONENTS[kind], module=CRASHING, port_of=address, **{VARIABLE: crash_point}
        )

    def may_end(self, worker: Process) -> bool:
        """Return whether the worker was killed, or found PostgreSQL down at its start and gave up."""
        assert not any(line.startswith("Traceback") for line in self.read_logs()), self.read_logs()[-20:]
        return worker.is_killed or not worker.read_first_line()


class RecordingPayerState(PayerState):
    """Payer state that records in the ledger every repeated request to act.

    It recognises the reference, which another payer might not.
    """

    def act(
        self, request: AuthorizationRequest, body: Mapping[str, Any], former: str, decide_after_s: float
    ) -> Authorization:
        if request.reference in self.authorizations:
            self._write(REPEATED, reference=request.reference)
        return super().act(request, body, former, decide_after_s)


def build_sandboxes(clock: RunClock, ledgers: Path) -> Mapping[str, Any]:
    """Build the apps of the external services."""
    payer = PayerSandbox(
        clock=clock,
        folder=ledgers,
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        token_life_s=TOKEN_LIFE_S,
        decide_after_s=DECIDE_AFTER_S,
    )
    payer.state = RecordingPayerState(clock, ledgers)
    issuer = IssuerSandbox(clock=clock, folder=ledgers, lifetime_s=CLIENT_TOKEN_LIFE_S)
    pas_payer = PasPayerSandbox(
        clock=clock,
        folder=ledgers,
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        token_life_s=TOKEN_LIFE_S,
        decide_after_s=DECIDE_AFTER_S,
    )
    return {
        "payer": build_payer_app(payer),
        "pas-payer": build_pas_payer_app(pas_payer),
        "issuer": build_issuer_app(issuer),
        "client": build_client_app(ClientSandbox(clock=clock, folder=ledgers)),
        # A client whose server is permanently gone.
        "gone": build_client_app(ClientSandbox(clock=clock, behaviour=Behaviour(is_gone=True))),
    }
