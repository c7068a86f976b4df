"""Fixtures: one gateway on services per test module, started by `holdfast run` and variables."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from holdfast import open_stores
from holdfast.runtime.factory import MEMORY_SETTINGS
from holdfast.web import find_free_port
from holdfast_demo.pagw.sandbox.issuer import AUDIENCE, ISSUER
from pagw.system import SYSTEM
from tests.processes import Process
from tests.systems.pagw.acceptance.gateway import ExternalServices, Gateway, register, start_external_services

from .services import ENVIRONMENT, Services, start_services

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with start_services(tmp_path_factory.mktemp("services")) as made:
        yield made


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file with the gateway's standard error."""
    return tmp_path_factory.mktemp("gateway") / "log"


@pytest.fixture(scope="module")
def gateway(services: Services, log: Path) -> Iterator[Gateway]:
    url = f"http://127.0.0.1:{find_free_port()}"
    with ExitStack() as stack:
        made = stack.enter_context(start_external_services())
        stack.enter_context(_run_gateway(services.variables | _build_variables(made, url), url, log))
        # Only to register and to wait: connects as the owner and shares no other store with the gateway.
        settings = replace(MEMORY_SETTINGS, sql=services.owner_url, environment=ENVIRONMENT)
        stores = open_stores(SYSTEM, settings)
        stack.callback(lambda: asyncio.run(stores.close()))
        asyncio.run(register(stores, made.payer_url))
        http = stack.enter_context(httpx2.Client(base_url=url, timeout=TIMEOUT_S))
        yield Gateway(url, stores, made, services.owner_url, http)


def _build_variables(made: ExternalServices, url: str) -> dict[str, str]:
    return {
        "PAGW_JWKS_URL": f"{made.issuer_url}/.well-known/jwks.json",
        "PAGW_TOKEN_ISSUER": ISSUER,
        "PAGW_TOKEN_AUDIENCE": AUDIENCE,
        "PAGW_PRIVATE_TARGETS": "on",
        "PAGW_PUBLIC_URL": url,
    }


@contextmanager
def _run_gateway(variables: dict[str, str], url: str, log: Path) -> Iterator[None]:
    """Run `holdfast run pagw` until the block ends. Fail if it does not start or stop cleanly."""
    with Process(
        "tests.processes",
        *("run", "pagw", "--port", url.rpartition(":")[2]),
        log=log,
        folder=log.parent,
        variables=variables,
    ) as process:
        assert process.read_first_line(), f"The gateway did not start:\n{log.read_text()}"
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0, log.read_text()
