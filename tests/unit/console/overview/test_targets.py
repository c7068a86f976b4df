"""Reading processes over HTTP: what they count, why they do not answer, and never longer than the limit."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from holdfast import Stores, open_stores
from holdfast.cli.commands.run import build_system_app
from holdfast.config.settings import Settings
from holdfast.console.overview.sampler import SystemSampler, parse_targets
from holdfast.console.overview.samples import Rates
from holdfast.console.overview.store_figures import describe_queues
from holdfast.console.overview.targets import TargetReading, open_target_client, read_target
from holdfast.core.errors import SettingsError
from holdfast.web import serve_in_thread
from tests.unit.console.overview.depot import DEPOT

LIMIT_S = 0.3
TOKEN = "a-token-of-the-api"


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    async with open_stores(DEPOT, Settings().in_folder(tmp_path)) as opened:
        yield opened


@contextmanager
def serve(stores: Stores, token: str = "") -> Iterator[str]:
    """Serve the API of the depot."""
    with serve_in_thread(build_system_app(DEPOT, stores, component="api", token=token)) as url:
        yield url


@contextmanager
def serve_silence() -> Iterator[str]:
    """Accept connections, and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def serve_texts(**texts: tuple[int, str]) -> Iterator[str]:
    """Serve other answers than those of a process."""

    def build(name: str) -> Any:
        status, text = texts.get(name, (200, ""))
        return lambda _: PlainTextResponse(text, status)

    routes = [Route("/metrics", build("metrics")), Route("/health/ready", build("health"))]
    with serve_in_thread(Starlette(routes=routes)) as url:
        yield url


async def read(url: str, token: str = "", timeout_s: float = 5.0) -> TargetReading:
    async with open_target_client(replace(Settings(), api_token=token)) as client:
        return await read_target(client, url, timeout_s)


async def test_reads_the_state_the_counters_and_the_figures_of_a_process(stores: Stores) -> None:
    with serve(stores) as url:
        async with httpx2.AsyncClient(base_url=url) as caller:
            for number in range(3):
                await caller.post(f"/orders/{number}")
            await caller.get("/broken")
        reading = await read(url)

    assert (reading.state.failure, reading.state.not_ready) == ("", {})
    assert reading.counters["requests", ""] == 4
    assert reading.counters["failed_requests", ""] == 1
    assert reading.counters["operations", ""] >= 3
    assert reading.counters["write_units", "Orders"] == 3
    assert describe_queues(DEPOT, "", reading.figures)["parcels"].visible == 0


async def test_rates_of_a_process_are_known_from_the_second_sample_on(stores: Stores) -> None:
    with serve(stores) as url:
        sampler = SystemSampler(stores, [url], Settings())
        async with open_target_client(Settings()) as client, httpx2.AsyncClient(base_url=url) as caller:
            first = await sampler.read(client)
            await caller.post("/orders/1")
            second = await sampler.read(client)

    assert first.rates is None
    assert isinstance(second.rates, Rates)
    assert second.rates.requests > 0
    assert second.rates.write_units.keys() == {"Orders"}
    assert second.queues["parcels"].visible == 0
    assert second.stores == {"tables": "", "queues": ""}


async def test_sends_the_token_of_the_api_and_says_if_it_is_refused(stores: Stores) -> None:
    with serve(stores, TOKEN) as url:
        assert (await read(url, TOKEN)).state.failure == ""
        refused = (await read(url)).state.failure

    assert refused == "it refuses its metrics with 401: give the console its api_token"


async def test_process_that_does_not_answer_fails_within_the_limit() -> None:
    with serve_silence() as url:
        began = asyncio.get_running_loop().time()
        reading = await read(url, timeout_s=LIMIT_S)
        took_s = asyncio.get_running_loop().time() - began

    assert reading.state.failure == f"no answer within {LIMIT_S + 1:g} s"
    assert took_s < 30


@pytest.mark.parametrize(
    ("url", "failure"),
    [
        ("http://127.0.0.1:1", "no connection"),
        ("http://127.0.0.1:notaport", "its address is not valid"),
    ],
)
async def test_address_without_a_process_fails_in_words(url: str, failure: str) -> None:
    assert (await read(url)).state.failure == failure


@pytest.mark.parametrize(
    ("texts", "failure"),
    [
        ({"metrics": (500, "no")}, "its metrics answer 500"),
        ({"metrics": (302, "")}, "its metrics answer 302"),
        ({"health": (503, "<html>")}, "its health answers 503"),
        ({"health": (404, "[]")}, "its health answers 404"),
        ({"metrics": (200, "x" * 9_000_000)}, "its answer is larger than 8388608 bytes"),
    ],
)
async def test_other_answers_than_those_of_a_process_are_failures(
    texts: dict[str, tuple[int, str]], failure: str
) -> None:
    with serve_texts(**texts) as url:
        reading = await read(url)

    assert (reading.state.failure, reading.counters) == (failure, {})


async def test_names_the_stores_that_a_process_finds_not_ready() -> None:
    body = '{"status": "unavailable", "stores": [{"store": "tables", "status": "ok"},'
    body += ' {"store": "sql", "status": "unavailable", "reason": "no answer within 2 s"}]}'
    with serve_texts(health=(503, body)) as url:
        state = (await read(url)).state

    assert (state.failure, state.not_ready) == ("", {"sql": "no answer within 2 s"})


def test_targets_are_addresses_by_system(caplog: pytest.LogCaptureFixture) -> None:
    text = " depot=http://127.0.0.1:8081/, depot=http://127.0.0.1:8082,depot=http://127.0.0.1:8081,"

    assert parse_targets(text, ["depot", "other"]) == {
        "depot": ["http://127.0.0.1:8081", "http://127.0.0.1:8082"],
        "other": [],
    }
    assert parse_targets("", ["depot"]) == {"depot": []}
    assert parse_targets("gone=http://127.0.0.1:1", ["depot"]) == {"depot": []}
    assert "no system gone is shown here" in caplog.text


@pytest.mark.parametrize(
    "text", ["depot", "http://127.0.0.1:8081", "depot=127.0.0.1:8081", "=http://a", "depot="]
)
def test_target_that_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(
        SettingsError, match=r"Invalid console_targets: .* is not a target\. Write the system"
    ):
        parse_targets(text, ["depot"])
