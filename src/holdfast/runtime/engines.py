"""The engines beside the tables', each opened when it is first wanted and closed with the stores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from holdfast.errors import SettingsError, StoreClosed


class Engine(Protocol):
    async def run(self, operation: Any) -> Any: ...

    def close(self) -> None: ...


class Engines:
    """`openers` makes an engine by the name of its store."""

    def __init__(self, openers: Mapping[str, Callable[[], Engine]] | None = None) -> None:
        self._openers = dict(openers or {})
        self._open: dict[str, Engine] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def of(self, store: str) -> Engine:
        found = self._open.get(store)
        return self._opened(store) if found is None else found

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            engines, self._open = list(self._open.values()), {}
        for engine in engines:
            engine.close()

    def _opened(self, store: str) -> Engine:
        with self._lock:
            if self._is_closed:
                raise StoreClosed(f"The {store} store was closed.")
            if store not in self._open:
                if store not in self._openers:
                    raise SettingsError(
                        f"These stores have no {store}: open them with open_stores(…), or give Stores an engine for it."
                    )
                self._open[store] = self._openers[store]()
            return self._open[store]
