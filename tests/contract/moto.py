"""Runs moto's server, an independent check of the AWS engines, and marks tests by its known deviations."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

# It waits for messages, which other requests send. boto3 sends this header in SQS's JSON protocol.
LONG_POLL: Final = "AmazonSQS.ReceiveMessage"


class OneAtATime:
    """WSGI middleware that runs one request after the other, except those that wait for another.

    moto checks a condition and writes in two steps, and undoes concurrent writes with a failed transaction.
    The services are atomic and isolated, so two threads in moto would show what no service does.
    """

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app, self._turn = app, threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Return the whole response."""
        if environ.get("HTTP_X_AMZ_TARGET") == LONG_POLL:
            return self._app(environ, start_response)
        with self._turn:
            return list(self._app(environ, start_response))


@contextmanager
def moto_endpoint() -> Iterator[str]:
    """Run moto's server and yield its address, such as `127.0.0.1:5123`.

    All users in a process share its data: choose unique names.
    """
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = OneAtATime(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    serving.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        serving.join()


def expect_failures(items: Sequence[pytest.Item], folder: Path, reasons: Mapping[str, str]) -> None:
    """Mark the tests in the folder that must fail on moto; `reasons` says by test name what moto does wrong.

    The mark is strict: a test that passes again is reported.
    """
    for item in _moto_items(items):
        reason = reasons.get(_strip_engine(item.name)) if folder in item.path.parents else None
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _moto_items(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Return the tests that run on moto, found by their names."""
    return (item for item in items if "[moto" in item.name)


def _strip_engine(name: str) -> str:
    """Return `test_it` for `test_it[moto]`, and `test_it[not]` for `test_it[moto-not]`."""
    return name.replace("[moto-", "[").replace("[moto]", "")
