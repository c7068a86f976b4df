"""Run one system for its story, in this process: sandboxes, API and workers, all over real HTTP.

Nothing is mocked. Only the clock is advanced by hand, instead of waiting. Each demo adds what its people do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from holdfast import Stores, System, web
from holdfast.core.clock import RunClock
from holdfast.runtime import WorkerGroup
from holdfast.web.demo_env import patch_environ, silence_loggers

# The receive wait of a worker: after it, the worker sees that the clock was advanced.
RECEIVE_WAIT_S: Final = 0.2
TIMEOUT_S: Final = 60.0
QUIET: Final = ("holdfast", "uvicorn", "httpx2", "httpcore2", "asyncio", "websockets")


@dataclass
class RunningSystem:
    """The sandboxes and the API, while `run_system` is entered. No worker runs until `run_workers`."""

    stores: Stores
    system: System
    clock: RunClock
    # A client of the API, whose address is `url`.
    http: httpx2.AsyncClient
    url: str
    sandbox_urls: Mapping[str, str]

    @asynccontextmanager
    async def run_workers(self, *only: str, without: Collection[str] = ()) -> AsyncIterator[WorkerGroup]:
        """Run the workers of all components, or of those in `only`, except those in `without`.

        Leaving waits for running messages; calling `WorkerGroup.stop` twice does not.
        """
        chosen = [
            each
            for each in self.system.components
            if each.has_work and each.name not in without and (not only or each.name in only)
        ]
        async with WorkerGroup(self.stores, chosen, wait_s=RECEIVE_WAIT_S) as work:
            if not await work.wait_until_ready():
                raise AssertionError("The workers did not start.")
            yield work


@asynccontextmanager
async def run_system(
    stores: Stores,
    system: System,
    clock: RunClock,
    *,
    sandboxes: Mapping[str, Any],
    build_variables: Callable[[Mapping[str, str], str], Mapping[str, str]],
    own_prefixes: Collection[str] = (),
) -> AsyncIterator[RunningSystem]:
    """Serve the sandboxes' apps and the routes of the system's components; stop them at the end.

    `build_variables` gets the sandboxes' addresses and that of the API, and returns the environment variables
    of the system. All other variables with `own_prefixes` are removed meanwhile.
    """
    port = web.find_free_port()
    with silence_loggers(*QUIET, system.name), ExitStack() as stack:
        urls = {name: stack.enter_context(web.serve_in_thread(app)) for name, app in sandboxes.items()}
        variables = build_variables(urls, f"http://127.0.0.1:{port}")
        stack.enter_context(patch_environ({**variables, "HOLDFAST_SECRETS": "env:"}, without=own_prefixes))
        app = web.make_app(
            system.title,
            "demo",
            _build_routers(stores, system, has_own_authentication=False),
            self_authenticated=_build_routers(stores, system, has_own_authentication=True),
            max_body_bytes=system.http.max_body_bytes,
        )
        if system.http.configure_app is not None:
            system.http.configure_app(app)
        url = stack.enter_context(web.serve_in_thread(app, port=port))
        async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as http:
            yield RunningSystem(stores, system, clock, http, url, urls)


def _build_routers(stores: Stores, system: System, *, has_own_authentication: bool) -> list[Any]:
    """Return the routers of the components that authenticate their callers, or of the others."""
    routers: list[Any] = []
    for component in system.components:
        build = component.routes or (system.http.routes if component.name == "api" else None)
        if build is not None and component.has_own_authentication is has_own_authentication:
            built = build(stores.for_component(component.name))
            routers += built if isinstance(built, list | tuple) else [built]
    return routers
