"""The page of an outbox: unsent messages, sending dead ones again, discarding them."""

from __future__ import annotations

from holdfast.guarantees import OutboxStatus
from tests.unit.console.work.shop import SHOP_OUTBOX, Parcel, Site

URL = "/outbox/shop/parcels"


async def enqueue(site: Site, *aggregates: str, is_dead: bool = True) -> dict[str, str]:
    """Write a message for each aggregate, given up by the relay if `is_dead`; return the ids."""
    ids = {}
    for each in aggregates:
        put = SHOP_OUTBOX.enqueue(site.stores, each, Parcel(order=each), sequence=1)
        await site.stores.run(put)
        ids[each] = put.entity.id
        if is_dead:
            changes = {"status": OutboxStatus.DEAD, "attempts": 55, "reason": "RequestRefused: too large"}
            dead = put.entity.model_copy(update=changes)
            await site.stores.run(SHOP_OUTBOX.pattern_set.keep(dead, put.entity))
    return ids


async def test_lists_unsent_messages_by_state(site: Site) -> None:
    await enqueue(site, "order-1")
    await enqueue(site, "order-2", is_dead=False)

    page = await site.client().get(URL)
    assert "order-1" in page.text and "order-2" in page.text and "RequestRefused: too large" in page.text
    dead = await site.client().get(URL, state="dead")
    assert "order-1" in dead.text and "order-2" not in dead.text


async def test_sends_one_or_all_again(site: Site) -> None:
    ids = await enqueue(site, "order-1", "order-2", "order-3")

    one = await site.client().post(f"{URL}/redrive", {"id": ids["order-1"]})
    assert "1 message is pending again" in one.notice
    rest = await site.client().post(f"{URL}/redrive")
    assert "2 messages are pending again" in rest.notice
    nothing = await site.client().post(f"{URL}/redrive")
    assert "Nothing was changed" in nothing.notice

    statuses = [each.status for each in await SHOP_OUTBOX.list_unsent(site.stores)]
    assert statuses == [OutboxStatus.PENDING] * 3
    counts = sorted(each.parsed_payload["count"] for each in await site.list_audit())
    assert counts == [0, 1, 2]


async def test_discards_one(site: Site) -> None:
    ids = await enqueue(site, "order-1", "order-2")
    answer = await site.client().post(f"{URL}/discard", {"id": ids["order-1"]})
    assert "was discarded" in answer.notice
    assert [each.aggregate for each in await SHOP_OUTBOX.list_unsent(site.stores)] == ["order-2"]


async def test_only_an_operator_acts(site: Site) -> None:
    ids = await enqueue(site, "order-1")
    assert "Send again" not in (await site.client("bob").get(URL)).html
    for path in ("redrive", "discard"):
        assert (await site.client("bob").post(f"{URL}/{path}", {"id": ids["order-1"]})).status == 403
    assert len(await SHOP_OUTBOX.list_unsent(site.stores, OutboxStatus.DEAD)) == 1
