"""The two doors that every stand-in has for tests and demos: what is to go wrong, and what has reached it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agenticpm.sandbox.ledger import Entry
from holdfast.web.sandboxes import Faults


class Driven:
    """Derive from it with `faults` and `ledger`."""

    faults: Faults

    @property
    def ledger(self) -> list[Entry]:
        """Every effect, oldest first."""
        return []

    async def set_faults(self, request: Request) -> Response:
        told: dict[str, Any] = await request.json()
        self.faults = Faults(**told)
        return JSONResponse({})

    async def get_ledger(self, request: Request) -> Response:
        return JSONResponse({"ledger": self.ledger})
