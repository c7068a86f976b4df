"""`Readiness`: whether each store of a process answers, for `/health/ready`.

All stores are probed at the same time, each within one time limit, so that a store that hangs delays the
answer by that limit and no more. The outcome is shared by all callers for a second. The answer names the
store and the kind of failure; addresses, paths and messages go to the log, once per change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from holdfast.core.concurrency import SharedCall
from holdfast.core.errors import HoldfastError, error_label, format_message

Probe: TypeAlias = Callable[[], Awaitable[None]]
"""Raises if the store does not answer as it should."""

DEFAULT_TIMEOUT_S: Final = 2.0
# A storm of probes is one probe per second.
MAX_AGE_S: Final = 1.0
OK: Final = "ok"
UNAVAILABLE: Final = "unavailable"

log = logging.getLogger(__name__)


class StoreReadiness(NamedTuple):
    """Whether one store answers; `reason` says why it does not, without addresses and data."""

    store: str
    reason: str = ""

    @property
    def is_ready(self) -> bool:
        return not self.reason


class Readiness:
    """The probes of a process, by store."""

    def __init__(
        self, probes: Mapping[str, Probe] | None = None, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self._timeout_s = timeout_s
        self._calls: dict[str, SharedCall[None]] = {}
        self._reasons: dict[str, str] = {}
        self.add_probes(probes or {})

    def add_probes(self, probes: Mapping[str, Probe]) -> None:
        """Probe these stores too, from now on."""
        for store, probe in probes.items():
            self._calls[store] = SharedCall(probe, timeout_s=self._timeout_s, max_age_s=MAX_AGE_S)

    async def check(self) -> list[StoreReadiness]:
        """Probe all stores at the same time and return each one's state, within the time limit."""
        return list(await asyncio.gather(*(self._check_store(each) for each in self._calls)))

    async def describe(self) -> tuple[bool, dict[str, Any]]:
        """Return whether all stores are ready, and the body of the answer."""
        states = await self.check()
        is_ready = all(each.is_ready for each in states)
        stores = [
            {"store": each.store, "status": OK}
            if each.is_ready
            else {"store": each.store, "status": UNAVAILABLE, "reason": each.reason}
            for each in states
        ]
        return is_ready, {"status": OK if is_ready else UNAVAILABLE, "stores": stores}

    async def _check_store(self, store: str) -> StoreReadiness:
        """Return the state of one store, and log a change of it."""
        reason = detail = ""
        try:
            await self._calls[store].get()
        except TimeoutError:
            reason = detail = f"no answer within {self._timeout_s:g} s"
        except HoldfastError as error:
            reason, detail = error_label(error), format_message(error)
        except Exception as error:
            reason, detail = error_label(error), type(error).__name__
            log.exception("The probe of the store %s failed unexpectedly.", store)
        if reason != self._reasons.get(store, ""):
            self._reasons[store] = reason
            if reason:
                log.warning("The store %s is not ready: %s", store, detail)
            else:
                log.info("The store %s is ready again.", store)
        return StoreReadiness(store, reason)
