"""Why something happened: the search over systems, masks, and ids that become links."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from holdfast.console.work.explanations import Piece, list_candidates, split_line
from holdfast.model.system import Explanation
from tests.unit.console.work.shop import PHONE, Site


async def test_search_leads_to_the_one_system_that_knows_the_id(site: Site) -> None:
    page = await site.client().get("/why", id=" order-3 ")
    assert page.status == 303 and page.location == "/why/shop/order-3"


@pytest.mark.parametrize("id", ["order-99", "nonsense", "<b>"])
async def test_search_for_an_unknown_id_says_what_to_do(site: Site, id: str) -> None:
    page = await site.client().get("/why", id=id)
    assert page.status == 200 and "No system knows this id" in page.text and "Asked: shop" in page.text
    assert "<b>" not in page.html.replace("<b>{", "")


async def test_search_asks_only_systems_that_the_user_sees(site: Site) -> None:
    page = await site.client("cleo").get("/why", id="order-3")
    assert page.status == 200 and "No system explains itself" in page.text
    assert (await site.client("cleo").get("/why/shop/order-3")).status == 404


async def test_ids_lead_to_what_they_name(site: Site) -> None:
    await site.begin_errand("e-1")
    await site.delay()

    page = await site.client().get("/why/shop/order-3")

    assert 'href="/why/shop/order-2"' in page.html
    assert 'href="/flows/shop/errand/items/o-1%23e-1"' in page.html
    assert 'href="/actions/shop/Letter/DESK%2523d-1%23LETTER%2523letter-1"' in page.html
    for link in ("/why/shop/order-2", "/actions/shop/Letter/DESK%2523d-1%23LETTER%2523letter-1"):
        assert (await site.client().get(link)).status == 200


async def test_ids_that_lead_nowhere_are_text(site: Site) -> None:
    page = await site.client().get("/why/shop/order-3")
    assert "/flows/shop/errand/items" not in page.html and "errand e-1" in page.text


async def test_explanation_is_masked_until_it_is_revealed(site: Site) -> None:
    page = await site.client().get("/why/shop/order-3")
    assert PHONE not in page.html
    answer = await site.client().post("/reveal/shop", {"page": "/why/shop/order-3"})
    assert PHONE in (await site.client().get(answer.location)).html
    (entry,) = await site.list_audit()
    assert entry.target is not None and "order-3" not in entry.target


@pytest.mark.parametrize(("id", "status"), [("order-99", 404), ("nonsense", 400)])
async def test_unknown_id_is_an_error_page(site: Site, id: str, status: int) -> None:
    assert (await site.client().get(f"/why/shop/{quote(id)}")).status == status


def test_finds_ids_in_the_data_and_in_the_text() -> None:
    ulid = "01KGK5CD00EXAMPLE000000000".replace("L", "K")
    explanation = Explanation(
        [f"booking b-17 of {ulid} failed"], {"bookingId": "b-17", "unused_id": "x-99", "name": "failed"}
    )
    assert list_candidates(explanation, "other") == ["b-17", ulid]


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        ("a b-1 c", [Piece("a "), Piece("b-1", "/b"), Piece(" c")]),
        ("b-10 and b-1", [Piece("b-10 and "), Piece("b-1", "/b")]),
        ("x-b-1", [Piece("x-b-1")]),
        ("", [Piece("")]),
    ],
)
def test_only_whole_ids_become_links(line: str, pieces: list[Piece]) -> None:
    assert split_line(line, {"b-1": "/b"}) == pieces
