"""The connector's log of calls to a payer: each is measured, and written with what follows it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from holdfast import Stores
from holdfast.core.errors import ExternalServiceRefused, HoldfastError, error_label
from holdfast.model.sql import SqlChange
from pagw.integrations.payers.client import PayerResponse
from pagw.model.payer_calls import NewPayerCall, record_call

R = TypeVar("R", bound=PayerResponse | None)

LOOK_UP: Final = "look-up"
UNKNOWN: Final = "unknown"


@dataclass
class PayerCallLog:
    """The calls about one request. `writes` are those that ended and are not yet stored."""

    stores: Stores
    payer_id: str
    pagw_id: str
    writes: list[SqlChange] = field(default_factory=list)

    async def measure(self, action: str, call: Awaitable[R]) -> R:
        """Await a call and log its outcome and duration. Its error is logged by its code and raised."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            answer = await call
        except ExternalServiceRefused as error:
            self._add(action, "refused", loop.time() - began, str(error.code)[:50])
            raise
        except HoldfastError as error:
            self._add(action, "failed", loop.time() - began, error_label(error))
            raise
        outcome = answer.status if isinstance(answer, PayerResponse) else UNKNOWN
        self._add(action, outcome, loop.time() - began, None)
        return answer

    async def store(self) -> None:
        """Write the calls that ended, if nothing else follows them."""
        if writes := self.take_writes():
            await self.stores.transact(*writes)

    def take_writes(self) -> tuple[SqlChange, ...]:
        """Return the writes of the calls since the last time, for the transaction of what follows them."""
        taken, self.writes = tuple(self.writes), []
        return taken

    def _add(self, action: str, outcome: str, took_s: float, error_code: str | None) -> None:
        call = NewPayerCall(
            payer_id=self.payer_id,
            pagw_id=self.pagw_id,
            action=action,
            outcome=outcome,
            error_code=error_code,
            took_ms=round(took_s * 1000, 3),
            at=self.stores.now(),
        )
        self.writes.append(record_call(call))
