"""WebSockets over the real server: bounded, refused with a reason, and closed with the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from fastapi import APIRouter, WebSocket
from starlette.requests import HTTPConnection
from starlette.responses import Response
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from holdfast.core.errors import TokenRefused
from holdfast.core.http.connection import ConnectionBounds
from holdfast.web import make_app, serve_in_thread
from holdfast.web.server import MAX_WEBSOCKET_BYTES
from holdfast.web.tokens import get_bearer_token

Talk = Callable[[str], Coroutine[Any, Any, None]]


def echo_router() -> APIRouter:
    """Build a WebSocket route that sends every text back."""
    router = APIRouter()

    @router.websocket("/echo")
    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        async for text in socket.iter_text():
            await socket.send_text(text)

    return router


def run_talk(talk: Talk) -> None:
    """Serve an echo WebSocket and run the conversation with its URL."""
    with serve_in_thread(make_app("Echo", "1", [], self_authenticated=[echo_router()])) as url:
        asyncio.run(talk(url.replace("http://", "ws://") + "/echo"))


def test_websocket_echoes_messages_up_to_the_size_limit() -> None:
    async def talk(url: str) -> None:
        async with connect(url) as socket:
            await socket.send("hello")
            assert await socket.recv() == "hello"
            await socket.send("x" * MAX_WEBSOCKET_BYTES)
            assert len(await socket.recv()) == MAX_WEBSOCKET_BYTES

    run_talk(talk)


def test_too_large_message_closes_only_its_own_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def talk(url: str) -> None:
        async with connect(url) as other, connect(url) as socket:
            await socket.send("x" * (MAX_WEBSOCKET_BYTES + 1))
            assert await get_close_code(socket) == 1009
            await other.send("still here")
            assert await other.recv() == "still here"

    run_talk(talk)
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


async def test_connection_is_closed_with_a_reason_when_the_server_ends() -> None:
    with serve_in_thread(make_app("Echo", "1", [], self_authenticated=[echo_router()])) as url:
        socket = await connect(url.replace("http://", "ws://") + "/echo")
    assert await get_close_code(socket) == 1012


async def test_foreign_host_names_and_pages_of_other_origins_cannot_connect() -> None:
    app = make_app("Echo", "1", [], self_authenticated=[echo_router()])
    with serve_in_thread(app, allowed_origins=["https://app.example.com"]) as url:
        place = url.replace("http://", "ws://") + "/echo"
        for origin in (None, url, "https://app.example.com"):
            async with connect(place, origin=None if origin is None else Origin(origin)):
                pass
        for origin in ("https://evil.example", "null"):
            with pytest.raises(InvalidStatus) as refused:
                await connect(place, origin=Origin(origin))
            assert refused.value.response.status_code == 403
        with pytest.raises(InvalidStatus) as refused:
            await connect("ws://rebound.example.org/echo", host="127.0.0.1", port=get_port(url))
        assert refused.value.response.status_code == 403
        assert b"allowed_hosts" in refused.value.response.body


async def test_open_websocket_outlives_the_timeouts_of_requests() -> None:
    app = make_app("Echo", "1", [], self_authenticated=[echo_router()])
    bounds = ConnectionBounds(head_timeout_s=0.05, body_timeout_s=0.05, keep_alive_s=0.05)
    with serve_in_thread(app, bounds=bounds) as url:
        async with connect(url.replace("http://", "ws://") + "/echo") as socket:
            await asyncio.sleep(0.2)
            await socket.send("still here")
            assert await socket.recv() == "still here"


def get_port(url: str) -> int:
    return int(url.rpartition(":")[2])


def test_refused_connection_is_not_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    router = APIRouter()

    @router.websocket("/closed")
    async def closed(socket: WebSocket) -> None:
        await socket.send_denial_response(Response("not you", status_code=401))

    async def talk(url: str) -> None:
        with pytest.raises(InvalidStatus) as refused:
            await connect(url)
        assert refused.value.response.status_code == 401

    with serve_in_thread(make_app("Closed", "1", [], self_authenticated=[router])) as url:
        asyncio.run(talk(url.replace("http://", "ws://") + "/closed"))
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([], "TokenMissing"),
        ([(b"authorization", b"Basic abc")], "TokenMissing"),
        ([(b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")], "TokenMissing"),
        ([(b"authorization", b"Bearer not a token")], "TokenMalformed"),
    ],
)
def test_reads_the_bearer_token_of_a_websocket(headers: list[Any], code: str) -> None:
    with pytest.raises(TokenRefused) as refused:
        get_bearer_token(HTTPConnection({"type": "websocket", "headers": headers}))
    assert refused.value.code == code
    good = [(b"authorization", b"Bearer a.b.c")]
    assert get_bearer_token(HTTPConnection({"type": "websocket", "headers": good})) == "a.b.c"


async def get_close_code(socket: ClientConnection) -> int | None:
    """Wait until the connection is closed and return its close code."""
    with pytest.raises(ConnectionClosed):
        await socket.recv()
    return socket.close_code
