"""The API server over real HTTP: where it listens, its lifespan, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypedDict

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Request

from holdfast.core.errors import SettingsError, StoreFileError
from holdfast.web import make_app, serve, serve_in_thread
from tests.unit.web.app_client import build_app, get_problem

PROGRAM = """
import sys
from contextlib import asynccontextmanager
from holdfast.web import make_app, serve

@asynccontextmanager
async def lifespan(app):
    yield
    print("closed", flush=True)

app = make_app("Seats", "1", [], lifespan=lifespan)
serve(app, host="127.0.0.1", port=0, on_ready=lambda url: print(url, flush=True))
print("ended", flush=True)
"""


class State(TypedDict):
    seat: str


def seat_router() -> APIRouter:
    """Build a route that returns the seat in the request's state."""
    router = APIRouter()

    @router.get("/seat")
    async def seat(request: Request) -> str:
        found: str = request.state.seat
        return found

    return router


def test_lifespan_state_is_in_every_request_and_ends_with_the_server() -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[State]:
        steps.append("opened")
        yield {"seat": "7A"}
        steps.append("closed")

    with serve_in_thread(make_app("Seats", "1", [seat_router()], lifespan=lifespan)) as url:
        assert httpx.get(url + "/seat").json() == "7A"
        assert steps == ["opened"]
    assert steps == ["opened", "closed"]


def test_a_failure_over_http_is_a_problem() -> None:
    with serve_in_thread(build_app()) as url:
        assert get_problem(httpx.get(url + "/nowhere"))["status"] == 404
        assert get_problem(httpx.post(url + "/health/live", content=b"x" * 2_000_000))["status"] == 413


def test_app_and_server_log_an_unexpected_error_once(caplog: pytest.LogCaptureFixture) -> None:
    router = APIRouter()

    @router.get("/fails")
    async def fails() -> None:
        raise ZeroDivisionError

    with serve_in_thread(build_app(router)) as url:
        assert get_problem(httpx.get(url + "/fails"))["status"] == 500
    assert [record.name for record in caplog.records if record.exc_info] == ["holdfast.web.problems"]


def test_raises_a_failure_of_the_lifespan() -> None:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if app.title:
            raise StoreFileError("not ours")
        yield

    with pytest.raises(StoreFileError, match="not ours"), serve_in_thread(build_app(lifespan=lifespan)):
        pytest.fail("it cannot serve")


def test_rejects_other_machines_without_a_token() -> None:
    with pytest.raises(SettingsError, match="Configure a token"):
        serve(build_app(), host="0.0.0.0", port=0, on_ready=pytest.fail)


def test_signal_ends_it_and_its_lifespan() -> None:
    environ = {**os.environ, "PYTHONWARNINGS": "error"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=environ
    ) as done:
        try:
            assert done.stdout is not None
            url = done.stdout.readline().strip()
            assert httpx.get(url + "/health/live").json() == {"status": "ok"}
            done.send_signal(signal.SIGTERM)
            assert done.stdout.read() == "closed\nended\n"
            assert done.wait() == 0
        finally:
            done.kill()
