"""Parts of processes that die on purpose: tables that kill their process, and a client of the fake service.

For `once_process.py`, `delayed_action_process.py` and `migration_process.py`.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import httpx

from holdfast.core.errors import ExternalServiceFailed
from holdfast.operations.tables import Operation
from holdfast.stores.tables.embedded import EmbeddedTables

# Long enough for a loaded machine: a dead process's request must reach the service before its deadline.
ACT_S = 4.0


class SelfKillingTables:
    """Store that kills its process at one of the requests, before or after running it. 0 requests: never."""

    def __init__(self, tables: EmbeddedTables, requests: int, *, is_after: bool) -> None:
        self._tables, self._left, self._is_after = tables, requests, is_after

    async def run(self, operation: Operation[Any]) -> Any:
        """Run the operation; kill the process before or after it if it is the chosen request."""
        self._left -= 1
        is_last = self._left == 0
        if is_last and not self._is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = await self._tables.run(operation)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class ServiceClient:
    """A client of the fake service that says whether a failed call may have had its effect.

    It sends its process id, so that the service can kill it.
    """

    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, headers={"X-Worker": str(os.getpid())}, timeout=ACT_S)

    async def __aenter__(self) -> ServiceClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    async def post(self, body: dict[str, str]) -> dict[str, Any]:
        """Request a letter and return the outcome.

        Raise `ExternalServiceFailed`; its `may_be_done` is False only for a refusal with status 429.
        """
        try:
            answer = await self._http.post("/letters", json=body)
        except httpx.TransportError as error:
            raise ExternalServiceFailed(f"no answer: {error!r}", may_be_done=True) from error
        if answer.status_code != 200:
            raise ExternalServiceFailed(str(answer.status_code), may_be_done=answer.status_code != 429)
        outcome: dict[str, Any] = answer.json()
        return outcome

    async def find(self, key: str) -> dict[str, Any] | None:
        """Return the outcome for a key, or None if the service has none."""
        try:
            answer = await self._http.get("/letters", params={"key": key})
        except httpx.TransportError as error:
            raise ExternalServiceFailed(f"no answer: {error!r}", may_be_done=False) from error
        if answer.status_code == 404:
            return None
        found: dict[str, Any] = answer.raise_for_status().json()
        return found
