"""The pages of a queue: messages without receiving them, groups, dead letters, redrive, discard, masking."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from holdfast.console.model import AuditPhase
from holdfast.console.work import queue_routes
from holdfast.operations.queues import Browse, DescribeQueue, ReceiveMessages
from holdfast.stores.queues.embedded import EmbeddedQueues
from tests.unit.console.work.shop import PHONE, Site

URL = "/queues/shop/parcels"
DEAD = "parcels-dead.fifo"


async def list_dead(site: Site) -> dict[str, str]:
    """Return the ids of the dead letters by their groups."""
    return {str(each.group): each.id for each in await site.queues.run(Browse(DEAD))}


async def count(site: Site, queue: str) -> int:
    return int((await site.queues.run(DescribeQueue(queue))).backlog)


async def test_shows_messages_without_receiving_them(site: Site) -> None:
    await site.send_parcels("a", "b")

    page = await site.client().get(URL)

    assert page.status == 200 and "group a" in page.text and "correlation c-1" in page.text
    (message, _) = await site.queues.run(ReceiveMessages("parcels.fifo", 2))
    assert message.receives == 1


async def test_bodies_are_masked_until_they_are_revealed_which_is_recorded(site: Site) -> None:
    await site.send_parcels("a")
    client = site.client()
    assert PHONE not in (await client.get(URL)).text

    answer = await client.post("/reveal/shop", {"page": URL})

    assert answer.status == 303
    assert PHONE in (await client.get(answer.location)).text
    (entry,) = await site.list_audit()
    assert (entry.user, entry.action, entry.system, entry.target) == ("ann", "reveal", "shop", URL)
    assert PHONE not in (await client.get(URL)).text


async def test_only_the_role_personal_reveals(site: Site) -> None:
    await site.send_parcels("a")
    bob = site.client("bob")
    page = await bob.get(URL)
    assert "The role personal may reveal it." in page.text and 'action="/reveal' not in page.html
    assert (await bob.post("/reveal/shop", {"page": URL})).status == 403
    revealed = (await site.client().post("/reveal/shop", {"page": URL})).location
    assert PHONE not in (await bob.get(revealed)).text


@pytest.mark.parametrize(
    "page", ["//evil.example/queues/shop", "https://evil.example/", "/queues/quiet/parcels", "\\evil", "/x"]
)
async def test_reveal_leads_only_to_pages_of_its_system(site: Site, page: str) -> None:
    answer = await site.client().post("/reveal/shop", {"page": page})
    assert answer.status == 400 or answer.location.startswith("/queues/shop")
    assert not answer.response.headers.get("location", "/").startswith("//")


async def test_groups_show_what_holds_them_back(site: Site) -> None:
    await site.send_parcels("a", "a", "b")
    await site.queues.run(ReceiveMessages("parcels.fifo", 1))

    page = await site.client().get(f"{URL}/groups")

    assert "first message, received 1 time" in page.text and "nothing: waits for a worker" in page.text
    assert page.text.index("first message, received") < page.text.index("nothing: waits")


async def test_redrives_all_dead_letters(site: Site) -> None:
    await site.send_parcels("a", "b")
    await site.kill_parcels()
    assert "Redrive all 2" in (await site.client().get(f"{URL}/dead")).text

    answer = await site.client().post(f"{URL}/redrive")

    assert answer.location == f"{URL}/dead" and "2 dead letters were moved back" in answer.notice
    assert (await count(site, DEAD), await count(site, "parcels.fifo")) == (0, 2)
    (entry,) = await site.list_audit()
    assert (entry.action, entry.target, entry.parsed_payload) == ("redrive", "parcels", {"moved": 2})


async def test_a_redrive_that_does_not_return_leaves_its_intent(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    async def die(*_: object, **__: object) -> int:
        raise Killed

    monkeypatch.setattr(queue_routes, "redrive", die)
    with pytest.raises(Killed):
        await site.client().post(f"{URL}/redrive")

    (intent,) = await site.list_entries()
    assert (intent.action, intent.target, intent.phase) == ("redrive", "parcels", AuditPhase.INTENT)


async def test_redrives_one_dead_letter_or_one_group(site: Site) -> None:
    await site.send_parcels("a", "b", "c", "c")
    await site.kill_parcels()
    ids = await list_dead(site)

    one = await site.client().post(f"{URL}/redrive", {"id": ids["a"]})
    assert "1 dead letter was moved back" in one.notice and sorted(await list_dead(site)) == ["b", "c"]

    group = await site.client().post(f"{URL}/redrive", {"group": "c"})
    assert "2 dead letters were moved back" in group.notice and sorted(await list_dead(site)) == ["b"]


async def test_discards_one_dead_letter(site: Site) -> None:
    await site.send_parcels("a", "b")
    await site.kill_parcels()
    ids = await list_dead(site)

    answer = await site.client().post(f"{URL}/discard", {"id": ids["a"]})

    assert "was discarded" in answer.notice and sorted(await list_dead(site)) == ["b"]
    again = await site.client().post(f"{URL}/discard", {"id": ids["a"]})
    assert "Nothing was changed" in again.notice
    assert sorted(each.parsed_payload["discarded"] for each in await site.list_audit()) == [0, 1]


@pytest.mark.parametrize("path", [f"{URL}/redrive", f"{URL}/discard"])
async def test_only_an_operator_acts_and_only_with_the_token_of_the_session(site: Site, path: str) -> None:
    await site.send_parcels("a")
    await site.kill_parcels()
    id = (await list_dead(site))["a"]
    page = await site.client("bob").get(f"{URL}/dead")
    assert "needs the role operator" in page.text and "Redrive all" not in page.text
    assert (await site.client("bob").post(path, {"id": id})).status == 403
    assert (await site.client().post(path, {"id": id}, csrf="wrong")).status == 403
    assert await count(site, DEAD) == 1


async def test_engine_that_cannot_peek_is_asked_only_by_a_form_of_an_operator(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.send_parcels("a")
    monkeypatch.setattr(EmbeddedQueues, "can_peek", False)

    page = await site.client().get(URL, show="yes")
    assert "cannot show messages without receiving them" in page.text and "correlation c-0" not in page.text
    assert "Receive and show them" in page.text and 'data-live="work-shop"' not in page.html
    assert "Receive and show them" not in (await site.client("bob").get(URL)).text
    assert (await site.client("bob").post(URL)).status == 403
    assert (await site.client().post(URL, csrf="wrong")).status == 403

    shown = await site.client().post(URL)
    assert "correlation c-0" in shown.text and PHONE not in shown.text
    (entry,) = [each for each in await site.list_audit() if each.action == "receive"]
    assert (entry.target, entry.parsed_payload) == ("parcels", {"part": "messages"})
    assert "No dead letters" in (await site.client().post(f"{URL}/dead")).text


async def test_messages_of_an_engine_that_cannot_peek_are_received_after_a_reveal(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.send_parcels("a")
    monkeypatch.setattr(EmbeddedQueues, "can_peek", False)

    revealed = (await site.client().post("/reveal/shop", {"page": URL})).location
    assert PHONE not in (await site.client().get(revealed)).text
    assert PHONE in (await site.client().post(revealed)).text


async def test_unknown_queue_is_not_found(site: Site) -> None:
    page = await site.client().get(f"/queues/shop/{quote('no such/queue', safe='')}")
    assert page.status == 404
    assert (await site.client().get("/queues/shop/nothing")).status == 404


async def test_page_follows_the_topic_and_escapes_what_it_shows(site: Site) -> None:
    await site.send_parcels("<script>")
    page = await site.client().get(URL)
    assert 'data-live="work-shop"' in page.html and "<script>alert" not in page.html
    assert "&lt;script&gt;" in page.html
