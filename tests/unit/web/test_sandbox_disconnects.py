"""Clients that disconnect while sending: a sandbox over HTTP logs no error."""

from __future__ import annotations

import logging
import socket
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.web import serve_in_thread
from holdfast.web.sandbox_faults import ERROR_HANDLERS


def test_disconnect_during_the_body_is_not_an_error_of_the_sandbox(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def echoed(request: Request) -> Response:
        return JSONResponse({"bytes": len(await request.body())})

    app = Starlette(routes=[Route("/", echoed, methods=["POST"])], exception_handlers=ERROR_HANDLERS)
    with caplog.at_level(logging.ERROR), serve_in_thread(app) as url:
        place = urlsplit(url)
        with socket.create_connection((place.hostname, place.port)) as half:
            half.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nhalf")
        with socket.create_connection((place.hostname, place.port)) as whole:
            whole.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nfour")
            assert whole.recv(1000).startswith(b"HTTP/1.1 200")
    assert not caplog.records
