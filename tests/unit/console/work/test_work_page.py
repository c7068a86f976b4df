"""The page of all work: counts, problems first, what a user sees, and the topic that it follows."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from holdfast.config.settings import Settings
from holdfast.console.work.routes import build_topic
from holdfast.console.work.summary import list_problems, read_summary
from holdfast.core.errors import ExternalServiceFailed, StoreFailed
from holdfast.flows.bookkeeping import park
from holdfast.flows.executions import ParkedFor
from holdfast.stores.queues.embedded import EmbeddedQueues
from tests.unit.console.work.shop import BREAKER, ERRANDS, LEASE, Site


async def test_shows_each_kind_of_work_with_its_counts(site: Site) -> None:
    await site.send_parcels("a", "b", "a")
    await site.delay()
    await site.begin_errand()
    await LEASE.take(site.stores, "sweeper")

    page = await site.client().get("/work")

    assert page.status == 200
    (shop, _) = [await read_summary(each, site.console.settings) for each in site.console.stores.values()]
    parcels = next(each for each in shop.queues if each.name == "parcels")
    assert (parcels.visible, parcels.groups, parcels.dead) == (3, 2, 0)
    assert [(each.held, each.due) for each in shop.actions] == [(1, 0)]
    assert [(each.states, each.running) for each in shop.flows] == [((("asked", 1),), 1)]
    assert [(each.name, each.state, each.token) for each in shop.leases] == [("sweeper", "held", 1)]
    assert {each.name: each.pending for each in shop.outboxes} == {"parcels": 0, "errand-flow": 1}
    for word in ("parcels", "Letter", "errand", "sweeper", "Nothing does"):
        assert word in page.text


async def test_names_what_needs_a_person_before_the_rest(site: Site) -> None:
    await site.send_parcels("a")
    await site.kill_parcels()
    await site.begin_errand()
    (execution,) = await ERRANDS.list_executions(site.stores)
    await park(ERRANDS, site.stores, execution, ParkedFor.FAILED, "It failed.")
    for _ in range(2):
        with pytest.raises(ExternalServiceFailed):
            await BREAKER.call(site.stores, "post", _fail)

    summary = await read_summary(site.stores, site.console.settings)

    assert [each.text for each in list_problems([summary])] == [
        "1 dead letter in the queue parcels",
        "1 execution of the flow errand parked",
        "The circuit of post is open",
    ]
    page = await site.client().get("/work")
    assert page.html.index("1 dead letter in the queue parcels") < page.html.index('id="flows"')
    assert 'href="/queues/shop/parcels/dead"' in page.html


async def test_user_sees_only_their_systems(site: Site) -> None:
    page = await site.client("cleo").get("/work")
    assert page.status == 200 and "parcels" not in page.text
    for path in ("/work?system=shop", "/queues/shop/parcels", "/flows/shop/errand", "/leases/shop"):
        assert (await site.client("cleo").get(path)).status == 404


async def test_page_without_work_says_what_makes_some(site: Site) -> None:
    page = await site.client().get("/work", system="quiet")
    assert "No work declared yet" in page.text and "holdfast up" in page.text


async def test_store_that_fails_is_a_problem_and_hides_nothing_else(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: EmbeddedQueues, operation: object) -> None:
        raise StoreFailed("The disk is gone.")

    await site.delay()
    monkeypatch.setattr(EmbeddedQueues, "run", fail)

    page = await site.client().get("/work")

    assert page.status == 200
    assert "parcels (queues) cannot be read: The disk is gone." in page.text and "Letter" in page.text


async def test_topic_changes_with_the_work_and_not_with_time(site: Site) -> None:
    topic = build_topic(site.console, site.stores)
    await site.delay()
    before = await topic.read()
    await asyncio.sleep(0.01)
    assert await topic.read() == before
    await site.send_parcels("a")
    assert await topic.read() != before


async def test_each_system_has_a_topic_of_its_own(site: Site) -> None:
    everything, one = await site.client().get("/work"), await site.client().get("/work", system="quiet")

    assert 'data-live="work-shop work-quiet"' in everything.html
    assert 'hx-trigger="live-work-shop from:body, live-work-quiet from:body"' in everything.html
    assert 'data-live="work-quiet"' in one.html
    assert 'data-live="work-shop"' in (await site.client().get("/leases/shop")).html
    assert (await site.client("cleo").get("/live", topic="work-shop")).status == 404


@pytest.mark.parametrize(
    ("settings", "every_s"),
    [
        (Settings(), 3.0),
        (Settings(tables="dynamodb://us-east-1"), 15.0),
        (Settings(queues="sqs://us-east-1"), 15.0),
    ],
)
async def test_services_are_read_less_often(site: Site, settings: Settings, every_s: float) -> None:
    console = replace(site.console, settings=settings)

    assert build_topic(console, site.stores).every_s == every_s
    assert build_topic(console, console.stores["quiet"]).every_s == 3.0


async def _fail() -> None:
    raise ExternalServiceFailed("The post is closed.", may_be_done=False)
