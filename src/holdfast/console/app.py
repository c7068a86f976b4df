"""The console's app: its pages and those of each system, behind the sign-in.

connection (host, origin) → middleware (headers, correlation id, size) → user and role → page
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any, Final

from holdfast import __version__
from holdfast.config.settings import Settings
from holdfast.console import explorer, work
from holdfast.console.access import CurrentUser, build_sight_guard, find_session, require_user
from holdfast.console.accounts import Accounts
from holdfast.console.assets import ASSETS_VERSION, build_assets_app
from holdfast.console.browser import routes as browser_routes
from holdfast.console.browser.streams import register_stream_topics
from holdfast.console.context import Console, CurrentConsole
from holdfast.console.costs import routes as costs
from holdfast.console.errors import FailurePages, install_error_pages
from holdfast.console.live import EVENT_STREAM, SIGNED_OUT_EVENT, LiveUpdates
from holdfast.console.model import CONSOLE, SignIn
from holdfast.console.navigation import Navigation
from holdfast.console.overview import routes as overview
from holdfast.console.overview.sampler import Sampler, run_sampler
from holdfast.console.rendering import Renderer
from holdfast.console.security_headers import SecurityHeaders
from holdfast.console.sign_in import account_routes, admin_routes
from holdfast.console.sign_in import routes as sign_in_routes
from holdfast.console.system_pages import COMPONENT
from holdfast.core.distribution import explain_missing
from holdfast.core.limits import MIB
from holdfast.core.readiness import Readiness
from holdfast.runtime import provision
from holdfast.runtime.stores import Stores
from holdfast.runtime.telemetry.metrics import open_metrics
from holdfast.web.middleware import BodyLimit, CorrelationId
from holdfast.web.operation_routes import RequestCounter, build_health_router, build_metrics_router

with explain_missing(__name__, "console"):
    from fastapi import APIRouter, Depends, FastAPI, Query
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse

MAX_BODY_BYTES: Final = MIB

router = APIRouter()


def build_console_app(
    settings: Settings,
    own: Stores,
    stores: Sequence[Stores],
    accounts: Accounts,
    broken: Mapping[str, str] | None = None,
) -> FastAPI:
    """Build the app over open stores: the console's own, and those of each system. They stay open.

    `broken` are the installed systems that did not load, each with the reason.
    """
    console = build_console(settings, own, stores, accounts, broken or {})
    app = FastAPI(
        title="Console",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=_build_lifespan(console),
    )
    app.state.console = console
    overview.add_topic(console)
    costs.add_topic(console)
    work.add_topics(console)
    metrics = open_metrics(own)
    app.include_router(build_health_router(Readiness()))
    app.include_router(build_metrics_router(metrics, has_token=False))
    app.mount(f"/assets/{ASSETS_VERSION}", build_assets_app())
    app.include_router(sign_in_routes.router)
    guard = [Depends(require_user)]
    register_stream_topics(console)
    account = (account_routes.router, admin_routes.router)
    groups = (overview.router, explorer.router, browser_routes.router, work.router, costs.router)
    for each in (router, *account, *groups):
        app.include_router(each, dependencies=guard)
    for name, pages in console.pages.items():
        app.include_router(
            pages.router, prefix=f"/apps/{name}", dependencies=[*guard, build_sight_guard(name)]
        )
    install_error_pages(app)
    # The last one added is the outermost.
    app.add_middleware(FailurePages)
    app.add_middleware(BodyLimit, max_bytes=MAX_BODY_BYTES)
    app.add_middleware(CorrelationId)
    app.add_middleware(SecurityHeaders, is_https=console.is_https)
    app.add_middleware(RequestCounter, counts=metrics.requests)
    return app


def build_console(
    settings: Settings, own: Stores, stores: Sequence[Stores], accounts: Accounts, broken: Mapping[str, str]
) -> Console:
    """Return what the pages work with."""
    by_name = {each.system.name: each for each in stores if each.system is not None}
    systems = [each.system for each in stores if each.system is not None]
    pages = {
        name: system.pages(by_name[name].for_component(COMPONENT))
        for name, system in ((each.name, each) for each in systems)
        if system.pages is not None
    }
    renderer = Renderer(Navigation(systems, pages), {name: each.templates for name, each in pages.items()})
    # A topic of a system's pages is seen by those who see the system.
    live = LiveUpdates(replace(topic, system=name) for name, each in pages.items() for topic in each.topics)
    return Console(settings, own, by_name, pages, renderer, live, accounts, broken)


def _build_lifespan(console: Console) -> Any:
    sampler = Sampler(console.own, console.stores, console.settings, console.questions)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await provision(console.own, CONSOLE)
        try:
            async with run_sampler(sampler):
                yield
        finally:
            await console.measurements.close()
            await console.live.close()

    return lifespan


@router.get("/live")
async def follow(
    request: Request, console: CurrentConsole, user: CurrentUser, topic: Annotated[list[str], Query()]
) -> Response:
    """Stream the names of topics that change, as server-sent events, until the session ends."""
    names = console.live.check_topics(topic, user)
    sign_in: SignIn = request.state.sign_in

    async def stream() -> AsyncIterator[str]:
        yield ": open\n\n"
        changes = console.live.follow(names, account=sign_in.account, place=sign_in.place, is_behind=True)
        async for changed in changes:
            if await find_session(request, console, is_used=False) is None:
                break
            yield "".join(f"event: change\ndata: {each}\n\n" for each in changed) or ": still there\n\n"
        if await find_session(request, console, is_used=False) is None:
            yield SIGNED_OUT_EVENT

    return StreamingResponse(stream(), media_type=EVENT_STREAM)
