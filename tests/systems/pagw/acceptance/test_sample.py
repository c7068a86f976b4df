"""Sample data, loaded into real stores: requests of two tenants with every outcome, and registries."""

from __future__ import annotations

import socket
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import open_stores
from holdfast.cli.stories.system_stories import build_story_settings
from holdfast.config.settings import Settings
from holdfast.core.errors import InvalidRequest
from holdfast_demo.pagw import sandbox
from holdfast_demo.pagw.request_trail import load_trail
from holdfast_demo.pagw.sample.bundles import PROVIDER_NPIS
from holdfast_demo.pagw.sample.loader import PAYER_URL, load_sample
from pagw.model import patterns
from pagw.model.entities import pagw
from pagw.system import SYSTEM
from tests.postgres import create_database


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv(sandbox.PAYER_VARIABLE, raising=False)
    return replace(build_story_settings(SYSTEM, tmp_path), sql=create_database(pagw))


@pytest.mark.proves("PG-20", "PG-21")
async def test_sample_has_every_outcome_and_a_second_run_adds_nothing(settings: Settings) -> None:
    async def run() -> None:
        async with open_stores(SYSTEM, settings) as stores:
            reports: list[tuple[str, int, int]] = []
            rows = await load_sample(stores, scale=0.5, progress=lambda *each: reports.append(each))
            found = await stores.run(patterns.requests_of("acme"))
            stands = Counter((each.kind, each.status.value, each.decision) for each in found)
            assert stands == {
                ("submit", "COMPLETED", "approved"): 1,
                ("submit", "COMPLETED", "denied"): 1,
                ("submit", "COMPLETED", "modified"): 1,
                ("submit", "PENDED", None): 1,
                ("submit", "CANCELLED", "approved"): 1,
                ("cancel", "COMPLETED", "cancelled"): 1,
                ("submit", "VALIDATED", None): 1,
            }
            payer = await stores.run(patterns.payer(sandbox.PAYER_ID))
            assert payer is not None and payer.api_endpoint == PAYER_URL
            assert [await stores.run(patterns.provider(npi)) for npi in PROVIDER_NPIS].count(None) == 0
            assert rows == len(found) + 1 + len(PROVIDER_NPIS)
            assert reports[-1] == ("requests", 6, 6)

            assert await load_sample(stores, scale=0.5) == 0
            assert await stores.run(patterns.requests_of("acme")) == found

    await run()


async def test_advanced_requests_have_the_trail_of_their_stages(settings: Settings) -> None:
    async def run() -> None:
        async with open_stores(SYSTEM, settings) as stores:
            await load_sample(stores, scale=0.1)
            (only,) = await stores.run(patterns.requests_of("acme"))
            trail = await load_trail(stores, "acme", only.pagw_id)
            assert trail.statuses[-1] == "COMPLETED"
            assert {each.consumer for each in trail.inbox} >= {"pasapiconnector", "passubscriptionhandler"}
            # No worker has run yet: every announcement is waiting.
            assert trail.unsent == len(trail.outbox) > 0

    await run()


async def test_keeps_an_already_registered_payer(settings: Settings) -> None:
    async def run() -> None:
        async with open_stores(SYSTEM, settings) as stores:
            await sandbox.register(stores, "http://127.0.0.1:7777")
            await load_sample(stores, scale=0.1)
            payer = await stores.run(patterns.payer(sandbox.PAYER_ID))
            assert payer is not None and payer.api_endpoint == "http://127.0.0.1:7777"

    await run()


async def test_sample_requests_stop_before_an_unreachable_payer(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        # A port that was bound and is closed by the time of the call.
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setenv(sandbox.PAYER_VARIABLE, url)

    async def run() -> None:
        async with open_stores(SYSTEM, settings) as stores:
            await load_sample(stores, scale=0.5)
            found = await stores.run(patterns.requests_of("acme"))
            stands = Counter((each.kind, each.status.value) for each in found)
            assert stands == {("submit", "CONVERTED"): 5, ("submit", "VALIDATED"): 1}
            payer = await stores.run(patterns.payer(sandbox.PAYER_ID))
            assert payer is not None and payer.api_endpoint == url

    await run()


async def test_refuses_a_scale_of_zero(settings: Settings) -> None:
    async with open_stores(SYSTEM, settings) as stores:
        with pytest.raises(InvalidRequest, match="above 0"):
            await load_sample(stores, scale=0)
