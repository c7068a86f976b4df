"""The pages of breakers and leases: states, since when, until when, and no release by force."""

from __future__ import annotations

import pytest

from holdfast.console.work.circuits import read_circuits
from holdfast.console.work.lease_views import read_leases
from holdfast.core.errors import ExternalServiceFailed
from tests.unit.console.work.shop import BREAKER, LEASE, Site


async def _fail() -> None:
    raise ExternalServiceFailed("The post is closed.", may_be_done=False)


async def test_open_circuit_shows_when_it_is_probed_next(site: Site) -> None:
    for _ in range(2):
        with pytest.raises(ExternalServiceFailed):
            await BREAKER.call(site.stores, "post", _fail)

    (view,) = await read_circuits(site.stores, BREAKER)

    stored = await BREAKER.get_circuit(site.stores, "post")
    assert (view.service, view.state, view.next_probe) == ("post", "open", stored.retry_at)
    assert view.since is not None and view.since <= site.stores.now()
    page = await site.client().get("/breakers/shop")
    assert "post open" in page.text and "2 failures within 1 min" in page.text


async def test_looks_up_a_circuit_that_is_not_stored(site: Site) -> None:
    page = await site.client().get("/breakers/shop", service="bank")
    assert "bank closed" in page.text
    assert "no service has failed" in (await site.client().get("/breakers/shop")).text


async def test_lease_shows_its_holder_and_since_when(site: Site) -> None:
    held = await LEASE.take(site.stores, "sweeper")
    released = await LEASE.take(site.stores, "loop")
    await released.release()

    loop, sweeper = await read_leases(site.stores, LEASE)

    assert (sweeper.holder, sweeper.state, loop.state) == (held.record.holder, "held", "released")
    assert sweeper.since is not None and abs((sweeper.since - site.stores.now()).total_seconds()) < 60
    page = await site.client().get("/leases/shop")
    assert held.record.holder in page.text and "Why there is no button to release a lease" in page.text


async def test_systems_without_them_say_so(site: Site) -> None:
    assert "No circuit breakers" in (await site.client().get("/breakers/quiet")).text
    assert "No leases" in (await site.client().get("/leases/quiet")).text
