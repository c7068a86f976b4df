"""The pages of the explorer: what they show, and to whom."""

from __future__ import annotations

import re
from dataclasses import replace

from holdfast import Stores, open_memory_stores
from tests.console_client import ConsoleClient, open_console_client
from tests.unit.console.explorer.clinic import CLINIC, EMPTY, rename


async def test_lists_systems_with_what_they_declare(console: ConsoleClient) -> None:
    page = await console.get("/systems")
    assert "Treats patients" in page
    assert 'href="/systems/clinic/patterns">12</a>' in page
    assert 'href="/apps/clinic/rounds">Rounds</a>' in page


async def test_shows_a_system_that_did_not_load_with_its_error(stores: Stores) -> None:
    broken = {"shop": "needs psycopg, which is not installed: install it"}
    async with open_console_client(stores, broken=broken) as console:
        assert "Needs psycopg, which is not installed" in await console.get("/systems")
        assert "Needs psycopg, which is not installed" in await console.get("/systems/shop")
    async with open_console_client(stores, roles=["clinic:viewer"], broken=broken) as viewer:
        assert "psycopg" not in await viewer.get("/systems")
        await viewer.get("/systems/shop", status=404)


async def test_a_system_is_hidden_from_users_without_a_role_for_it(stores: Stores) -> None:
    async with open_console_client(stores, roles=["other:viewer"]) as stranger:
        assert "Clinic" not in await stranger.get("/systems")
        for path in ("", "/patterns", "/patterns/P1", "/tables/Visits", "/components/api", "/findings"):
            await stranger.get(f"/systems/clinic{path}", status=404)
        await stranger.post("/systems/clinic/patterns/P3/run", status=404, confirmed="yes")
        await stranger.post("/systems/clinic/patterns/P1/reveal", status=404, target="/x")


async def test_shows_the_model_in_three_widths(console: ConsoleClient) -> None:
    page = await console.get("/systems/clinic")
    assert [page.count(f'<svg class="{each}"') for each in ("wide", "middle", "narrow")] == [2, 2, 2]
    assert "style=" not in page
    assert "Reminds patients" in page and "clinic-scans" in page
    assert "What is this: global secondary index" in page


async def test_an_empty_system_says_what_to_declare() -> None:
    async with open_memory_stores(EMPTY) as stores, open_console_client(stores) as console:
        page = await console.get("/systems/empty")
        assert "Nothing is stored yet" in page
        assert "No components" in page
        assert "No pattern fits" in await console.get("/systems/empty/patterns")


async def test_a_table_shows_keys_indexes_entities_patterns_and_components(console: ConsoleClient) -> None:
    page = await console.get("/systems/clinic/tables/Visits")
    assert "The day of a doctor" in page and "sparse" in page
    assert "only with" in page
    assert "expires 90 days after" in page
    assert "/systems/clinic/patterns/V1" in page and "/systems/clinic/patterns/P1" not in page
    assert 'href="/data/clinic/Visits"' in page
    await console.get("/systems/clinic/tables/Nothing", status=404)


async def test_a_component_shows_its_policy_schedules_and_patterns(console: ConsoleClient) -> None:
    page = await console.get("/systems/clinic/components/nurse")
    assert '"dynamodb:GetItem"' in page and '"sqs:ReceiveMessage"' in page
    assert "dynamodb:PutItem" not in page
    assert 'data-copy="' in page
    assert "sweep, every 1 min" in page
    await console.get("/systems/clinic/components/nobody", status=404)


async def test_patterns_are_filtered_by_the_address(console: ConsoleClient) -> None:
    page = await console.get("/systems/clinic/patterns?q=doctor&kind=reads")
    assert "1 of 12 patterns" in page
    assert "Visits of a doctor" in page
    assert 'value="doctor"' in page
    assert "No pattern fits" in await console.get("/systems/clinic/patterns?q=nothing+at+all")


async def test_a_name_from_a_system_cannot_end_its_element() -> None:
    system = replace(rename(CLINIC, "clinic"), title='<script>alert("x")</script>', pages=None)
    async with open_memory_stores(system) as stores, open_console_client(stores) as console:
        raw = await console.get_raw("/systems/clinic")
        assert "<script>alert" not in raw
        assert re.search(r"&lt;script&gt;alert", raw)
