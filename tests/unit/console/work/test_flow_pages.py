"""The pages of a flow: executions by state, timelines, what is waited for, parked executions resumed."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from holdfast import Attr, Key, Table, attr
from holdfast.console.masking import Masker
from holdfast.console.work.flow_routes import _list_attributes
from holdfast.flows import Execution, FlowItem, Next, ParkedFor
from holdfast.flows.bookkeeping import park
from holdfast.flows.transition import commit
from tests.unit.console.work.shop import ERRANDS, PHONE, Errand, Site

URL = "/flows/shop/errand"
ITEM = f"{URL}/items/o-1%23e-1"


async def move(site: Site, errand: Errand, *states: str, **more: object) -> Errand:
    for state in states:
        errand = await commit(ERRANDS, site.stores, errand, Next(state), (state,), **more)  # type: ignore[arg-type]
    return errand


async def park_all(site: Site, reason: str = "It failed.") -> list[Execution]:
    executions = await ERRANDS.list_executions(site.stores)
    for each in executions:
        await park(ERRANDS, site.stores, each, ParkedFor.FAILED, reason)
    return executions


async def test_lists_executions_by_state_and_the_parked_ones_first(site: Site) -> None:
    await site.begin_errand("e-1")
    await park_all(site)
    await move(site, await site.begin_errand("e-2"), "planned")

    page = await site.client().get(URL)
    assert "o-1#e-1" in page.text and "o-1#e-2" in page.text and "failed step: It failed." in page.text
    assert page.text.index("o-1#e-1") < page.text.index("o-1#e-2")
    assert "o-1#e-1" not in (await site.client().get(URL, state="planned")).text
    assert "o-1#e-2" not in (await site.client().get(URL, state="parked")).text


async def test_timeline_shows_durations_retries_and_what_is_waited_for(site: Site) -> None:
    errand = await site.begin_errand()
    errand = await move(site, errand, "planned", failures=2, error="PartyFailed: secret")
    errand = await move(site, errand, "offered")

    page = await site.client().get(ITEM)

    assert page.status == 200
    for words in ("step Plan", "2 failed attempts", "PartyFailed", "wait WaitIn_offered", "so far"):
        assert words in page.text
    assert "secret" not in page.text and "choose, refuse" in page.text and "then cancelled" in page.text
    assert errand.flow_due is not None and errand.flow_due.isoformat() in page.html


async def test_ended_item_keeps_its_timeline(site: Site) -> None:
    await move(site, await site.begin_errand(), "planned", "offered", "cancelled")
    page = await site.client().get(URL, key="o-1#e-1")
    assert page.status == 303 and page.location == ITEM
    page = await site.client().get(ITEM)
    assert "ended: cancelled" in page.text and "wait WaitIn_offered" in page.text


async def test_item_without_a_history_says_so(site: Site) -> None:
    errand = await move(site, await site.begin_errand(), "planned")
    bare = Errand.of("o-1").update("e-1").remove(Errand.flow_history)
    await site.stores.run(bare.with_current(Errand.status, errand.status))
    assert "Earlier states are not known" in (await site.client().get(ITEM)).text


async def test_resumes_one_parked_execution(site: Site) -> None:
    await site.begin_errand()
    await park_all(site)
    page = await site.client().get(ITEM)
    assert "Parked, failed step: It failed." in page.text and 'data-dialog="resume"' in page.html

    answer = await site.client().post(f"{URL}/resume", {"key": "o-1#e-1"})

    assert answer.location == ITEM and "1 execution was resumed" in answer.notice
    assert [each.is_parked for each in await ERRANDS.list_executions(site.stores)] == [False]
    (entry,) = await site.list_audit()
    assert (entry.action, entry.target, entry.parsed_payload["resumed"]) == ("resume", "errand", 1)


async def test_resumes_all_parked_executions(site: Site) -> None:
    await site.begin_errand("e-1")
    await site.begin_errand("e-2")
    await park_all(site)
    assert "Resume all 2 parked" in (await site.client().get(URL)).text
    assert "2 executions were resumed" in (await site.client().post(f"{URL}/resume")).notice
    assert "Nothing was resumed" in (await site.client().post(f"{URL}/resume")).notice


async def test_only_an_operator_resumes(site: Site) -> None:
    await site.begin_errand()
    await park_all(site)
    assert 'data-dialog="resume"' not in (await site.client("bob").get(ITEM)).html
    assert (await site.client("bob").post(f"{URL}/resume")).status == 403


async def test_attributes_and_reasons_are_masked(site: Site) -> None:
    errand = await site.begin_errand()
    await commit(ERRANDS, site.stores, errand, Next("planned", {"plan": f"Call {PHONE}"}), ("planned",))
    await park_all(site, f"Nobody answered {PHONE}.")
    assert PHONE not in (await site.client().get(ITEM)).text
    assert PHONE not in (await site.client().get(URL)).text
    revealed = (await site.client().post("/reveal/shop", {"page": ITEM})).location
    assert f"Call {PHONE}" in (await site.client().get(revealed)).text


def test_a_time_under_a_personal_name_is_masked() -> None:
    class Patient(FlowItem, table=Table("Patients", "id")):
        id: Attr[str] = attr()
        birth_date: Attr[datetime] = attr()
        seen_at: Attr[datetime] = attr()
        of = Key(id)

    born, seen = datetime(1815, 12, 10, tzinfo=UTC), datetime(2026, 2, 4, tzinfo=UTC)
    page: Any = SimpleNamespace(masker=Masker())
    shown, is_masked = _list_attributes(page, Patient(id="p-1", birth_date=born, seen_at=seen))

    assert is_masked and ("seen_at", seen, "time") in shown
    assert "1815" not in str(shown)


async def test_diagram_lists_states_and_where_they_lead(site: Site) -> None:
    await site.begin_errand()
    page = await site.client().get(f"{URL}/diagram")
    assert "stateDiagram" in page.text and "<svg" in page.html and "the step Plan" in page.text
    assert f'href="{URL}?state=asked">1</a>' in page.html


async def test_unknown_item_is_not_found(site: Site) -> None:
    assert (await site.client().get(f"{URL}/items/o-1%23nope")).status == 404
    assert (await site.client().get(f"{URL}/items/nope")).status == 400
    assert (await site.client().get("/flows/shop/nope")).status == 404
