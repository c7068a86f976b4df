"""Base class with the control endpoints of every sandbox, for tests and demos: faults and ledger."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.web.bodies import JsonBody
from holdfast.web.sandbox_faults import Faults, FaultsBody
from holdfast_demo.agenticpm.sandbox.ledger import Entry


class SandboxControls:
    """Base class of sandboxes with `faults` and `ledger`."""

    faults: Faults

    @property
    def ledger(self) -> list[Entry]:
        """Every effect, oldest first."""
        return []

    async def set_faults(self, request: Request) -> Response:
        """Replace the faults by those in the request body."""
        self.faults = (await JsonBody(FaultsBody)(request)).to_faults()
        return JSONResponse({})

    async def get_ledger(self, request: Request) -> Response:
        return JSONResponse({"ledger": self.ledger})
