"""The engines of the stores: opened on first use, closed with the stores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from holdfast.core.errors import SettingsError, StoreClosed


class Engine(Protocol):
    """The interface of every engine: run its store's operations, and close."""

    async def run(self, operation: Any) -> Any: ...

    def close(self) -> None: ...


class Engines:
    """Engines by store name, created on first use by `openers`."""

    def __init__(self, openers: Mapping[str, Callable[[], Engine]] | None = None) -> None:
        self._openers = dict(openers or {})
        self._open: dict[str, Engine] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def get(self, store: str) -> Engine:
        """Return the engine of a store, opening it on first use.

        Raise `StoreClosed` after `close`, and `SettingsError` if there is no opener for the store.
        """
        found = self._open.get(store)
        return self._open_engine(store) if found is None else found

    def close(self) -> None:
        """Close the open engines; none can be opened afterwards."""
        with self._lock:
            self._is_closed = True
            engines, self._open = list(self._open.values()), {}
        for engine in engines:
            engine.close()

    def _open_engine(self, store: str) -> Engine:
        """Open the engine, unless another thread has done so."""
        with self._lock:
            if self._is_closed:
                raise StoreClosed(f"The {store} store was closed.")
            if store not in self._open:
                if store not in self._openers:
                    raise SettingsError(
                        f"No engine for the store {store}: open the stores with open_stores(…), or pass one "
                        "to Stores(…)."
                    )
                self._open[store] = self._openers[store]()
            return self._open[store]
