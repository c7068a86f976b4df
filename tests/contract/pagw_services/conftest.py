"""One gateway on services for the tests of a process: started as an operator does, by `holdfast run` and variables alone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from holdfast import open_stores
from holdfast.runtime.factory import MEMORY_SETTINGS
from pagw.demo.sandbox.issuer import AUDIENCE, ISSUER
from pagw.system import SYSTEM
from tests.acceptance.pagw.gateway import Gateway, Parties, parties, register

from .services import ENVIRONMENT, Services, free_port, started

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with started(tmp_path_factory.mktemp("services")) as made:
        yield made


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the gateway writes to standard error."""
    return tmp_path_factory.mktemp("gateway") / "log"


@pytest.fixture(scope="module")
def gateway(services: Services, log: Path) -> Iterator[Gateway]:
    url = f"http://127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        made = stack.enter_context(parties())
        stack.enter_context(_running(services.variables | _own(made, url), url, log))
        # Only to register and to wait: by the owner's door, and with no other store of the gateway's.
        settings = replace(MEMORY_SETTINGS, sql=services.owners_url, environment=ENVIRONMENT)
        stores = open_stores(SYSTEM, settings)
        stack.callback(lambda: asyncio.run(stores.close()))
        asyncio.run(register(stores, made.payer_url))
        http = stack.enter_context(httpx2.Client(base_url=url, timeout=TIMEOUT_S))
        yield Gateway(url, stores, made, services.owners_url, http)


def _own(made: Parties, url: str) -> dict[str, str]:
    return {
        "PAGW_JWKS_URL": f"{made.issuer_url}/.well-known/jwks.json",
        "PAGW_TOKEN_ISSUER": ISSUER,
        "PAGW_TOKEN_AUDIENCE": AUDIENCE,
        "PAGW_PRIVATE_TARGETS": "on",
        "PAGW_PUBLIC_URL": url,
    }


@contextmanager
def _running(variables: dict[str, str], url: str, log: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "holdfast", "run", "pagw", "--port", url.rpartition(":")[2]]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, cwd=log.parent, env=os.environ | variables, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                pytest.fail(f"The gateway did not start:\n{log.read_text()}")
            yield
        finally:
            process.terminate()
            assert process.wait(TIMEOUT_S) == 0, log.read_text()
