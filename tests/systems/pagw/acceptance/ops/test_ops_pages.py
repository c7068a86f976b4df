"""PAGW's pages in the console: what they show, whom they let act, and how PHI is revealed."""

from __future__ import annotations

import re

from holdfast.console.model import AUDIT, ConsoleAudit
from holdfast_demo.pagw.sample.bundles import DEFAULT_PAYER, PEOPLE
from holdfast_demo.pagw.sandbox.payer_rules import DENIED, PENDED_APPROVED
from pagw.domain.statuses import Stage, Status
from pagw.model import delivery_patterns
from tests.console_client import USER_NAME, ConsoleClient, open_console_client
from tests.systems.pagw.contract.pipeline import Pipeline, run_scenario

APP = "/apps/pagw"
SEEN = re.compile(r'name="seen" value="([^"]+)"')


async def list_entries(console: ConsoleClient) -> list[ConsoleAudit]:
    """Return what the console recorded on the day of its clock."""
    day = console.own.now().date().isoformat()
    return list(await console.own.all(AUDIT.pattern_set.history(day)))


def list_phi_reads(pipeline: Pipeline) -> list[tuple[str, ...]]:
    return pipeline.rows(
        "SELECT pagw_id, actor_type, actor_id, resource_type FROM pagw.audit_log "
        "WHERE event_type = 'PHI_READ'"
    )


async def test_empty_pages_say_what_would_appear() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        async with open_console_client(pipeline.stores) as console:
            for view, words in (
                ("overdue", "No request is overdue"),
                ("pended", "No request is pended"),
                ("contradicted", "No payer has contradicted itself"),
                ("stuck", "No request is stuck"),
                ("undelivered", "Every notification was delivered"),
                ("held", "No request is under a legal hold"),
            ):
                assert words in await console.get(f"{APP}/worklist?view={view}")
            assert "No decision in 2026" in await console.get(f"{APP}/metrics")
            assert "not called" in await console.get(f"{APP}/payers")
            page = await console.get(f"{APP}/worklist?view=pended&payer=OTHER")
            assert "No request is pended with this filter" in page

    await run_scenario(scenario)


async def test_a_request_shows_no_phi_until_it_is_revealed_and_each_reading_is_audited() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit(key="visit-1", member=PEOPLE[2])
        await pipeline.settle()
        address = f"{APP}/requests/{pagw_id}"
        async with open_console_client(pipeline.stores) as console:
            page = await console.get(address)
            assert not [each for each in PEOPLE[2].secrets if each in page] and "visit-1" not in page
            assert list_phi_reads(pipeline) == []

            revealed = await console.post_for_location("/reveal/pagw", page=address)
            page = await console.get(revealed)
            assert "Isolde Brambleknott" in page and PEOPLE[2].member_id in page and "99213 × 1" in page
            read = (pagw_id, "user", USER_NAME, "Bundle")
            assert list_phi_reads(pipeline) == [read]
            assert ("reveal", "pagw") in [(each.action, each.system) for each in await list_entries(console)]

            part = await console.get_fragment(revealed)
            assert PEOPLE[2].member_id not in part, "a part that loads by itself reads no contents"
            assert list_phi_reads(pipeline) == [read]

    await run_scenario(scenario)


async def test_without_the_role_personal_nothing_is_revealed() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit()
        await pipeline.settle()
        async with open_console_client(pipeline.stores, roles=["pagw:operator"]) as console:
            page = await console.get(f"{APP}/requests/{pagw_id}")
            assert "The role personal may read them" in re.sub("<[^>]+>", "", page)
            await console.post("/reveal/pagw", 403, page=f"{APP}/requests/{pagw_id}")
        assert list_phi_reads(pipeline) == []

    await run_scenario(scenario)


async def test_the_timeline_covers_the_stores_and_can_show_one() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit()
        await pipeline.settle()
        async with open_console_client(pipeline.stores) as console:
            page = await console.get(f"{APP}/requests/{pagw_id}")
            for words in (
                "COMPLETED",
                "Stored request/original_bundle.json",
                "Message to pagw-request-enricher-queue",
                "Key of the submission taken",
                "payer ACME-HEALTH: cached",
                f'href="/why/pagw/{pagw_id}"',
                f'href="{APP}/payers/{DEFAULT_PAYER}"',
            ):
                assert words in page, words
            for raw in re.findall(r'href="(/data/[^"]+)"', page):
                await console.get(raw)
            page = await console.get(f"{APP}/requests/{pagw_id}?store=objects")
            assert "Stored request/original_bundle.json" in page and "Message to pagw" not in page

    await run_scenario(scenario)


async def test_a_viewer_reads_and_may_not_act() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pended = await pipeline.submit(items=(PENDED_APPROVED,))
        await pipeline.settle()
        async with open_console_client(pipeline.stores, roles=["pagw:viewer"]) as console:
            page = await console.get(f"{APP}/worklist?view=pended")
            assert pended in page and 'data-dialog="replay"' not in page
            for action in ("replay", "cancel", "hold", "lift"):
                await console.post(f"{APP}/requests/{action}", 403, id=pended, seen="x", reason="case 1")
            await console.post(f"{APP}/deliveries/resend", 403, id=f"{pended}#callback")
        assert pipeline.rows("SELECT 1 FROM pagw.audit_log WHERE actor_type = 'user'") == []

    await run_scenario(scenario)


async def test_a_replay_is_recorded_twice_and_refused_on_what_has_changed() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pended = await pipeline.submit(items=(PENDED_APPROVED,))
        await pipeline.settle()
        async with open_console_client(pipeline.stores) as console:
            found = SEEN.search(await console.get_raw(f"{APP}/requests/{pended}"))
            assert found is not None
            form: dict[str, str] = {"id": pended, "seen": found[1], "back": f"{APP}/worklist?view=pended"}
            pipeline.clock.advance(seconds=1)
            page = await console.post(f"{APP}/requests/replay", 303, **form)
            assert f"Replayed: {pended} goes to pasapiconnector again." in page
            page = await console.post(f"{APP}/requests/replay", 303, **form)
            assert "Nothing was done: the request changed after you opened the page" in page

            actors = pipeline.rows(
                "SELECT actor_type, actor_id FROM pagw.audit_log WHERE event_type = 'REPLAY'"
            )
            assert actors == [("user", USER_NAME)]
            results = [
                each.result.ok
                for each in await list_entries(console)
                if each.action == "replay" and each.result is not None
            ]
            assert sorted(results) == [False, True]

    await run_scenario(scenario)


async def test_a_request_is_cancelled_only_before_its_payer_has_it() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        early, late = await pipeline.submit(), await pipeline.submit(items=(PENDED_APPROVED,))
        await pipeline.settle(until=Stage.request_enricher)
        async with open_console_client(pipeline.stores) as console:
            page = await console.post(f"{APP}/requests/cancel", id=early, back=f"{APP}/requests/{early}")
            assert "Cancelled:" in page and (await pipeline.request(early)).status is Status.CANCELLED
            await pipeline.settle()
            page = await console.post(f"{APP}/requests/cancel", id=late, back="//elsewhere.example/")
            assert "its payer may already have it" in page
            assert (await pipeline.request(late)).status is Status.PENDED

    await run_scenario(scenario)


async def test_a_legal_hold_is_placed_with_a_reason_and_lifted() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit()
        await pipeline.settle()
        async with open_console_client(pipeline.stores) as console:
            back = f"{APP}/requests/{pagw_id}"
            page = await console.post(f"{APP}/requests/hold", id=pagw_id, reason=" ", back=back)
            assert "Invalid reason" in page
            page = await console.post(f"{APP}/requests/hold", id=pagw_id, reason="case 12", back=back)
            assert "On hold:" in page and "case 12" in page
            assert pagw_id in await console.get(f"{APP}/worklist?view=held")
            page = await console.post(f"{APP}/requests/lift", id=pagw_id, back=f"{APP}/worklist?view=held")
            assert "Lifted:" in page and "No request is under a legal hold" in page

    await run_scenario(scenario)


async def test_a_notification_that_was_given_up_shows_its_origin_and_is_resent() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit()
        await pipeline.settle()
        delivery_id = f"{pagw_id}#callback"
        made = delivery_patterns.create_delivery(
            delivery_id=delivery_id,
            tenant="acme",
            pagw_id=pagw_id,
            subscription_id=None,
            target="https://client.example/hook/of/a/patient",
            event_number=1,
            at=pipeline.now,
        )
        gave_up = delivery_patterns.note_delivery(
            delivery_id, "given_up", pipeline.now, error="call +1 202 555 0143"
        )
        await pipeline.stores.transact(made, gave_up)
        async with open_console_client(pipeline.stores) as console:
            page = await console.get(f"{APP}/worklist?view=undelivered")
            assert "https://client.example" in page and "/hook/of/a/patient" not in page
            assert "555 0143" not in page and "given up" in page
            page = await console.post(
                f"{APP}/deliveries/resend", id=delivery_id, back=f"{APP}/worklist?view=undelivered"
            )
            assert "Sent again" in page
            page = await console.post(f"{APP}/deliveries/resend", id=delivery_id)
            assert "is waiting: nothing to send again" in page

    await run_scenario(scenario)


async def test_metrics_state_what_they_cannot_know_next_to_each_figure() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        await pipeline.submit()
        await pipeline.submit(items=(DENIED,))
        await pipeline.settle()
        async with open_console_client(pipeline.stores) as console:
            page = await console.get(f"{APP}/metrics?year=2026&payer={DEFAULT_PAYER}")
            assert page.count("50 %") == 2 and "1 of 2 decided" in page
            rows = re.findall(r'<td data-label="What it cannot know"[^>]*>([^<]*)</td>', page)
            assert len(rows) == 11 and all(rows)
            assert page.count("Not known to the gateway") == 3
            assert "No decision in 2025" in await console.get(f"{APP}/metrics?year=2025")

    await run_scenario(scenario)


async def test_a_payer_shows_its_calls_limits_and_clocks() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        done = await pipeline.submit()
        await pipeline.settle()
        async with open_console_client(pipeline.stores) as console:
            page = await console.get(f"{APP}/payers/{DEFAULT_PAYER}")
            for words in ("answers", done, "72 hours after acceptance", "7 days after acceptance", "10 s"):
                assert words in page, words
            assert "pagw/payers/sandbox" in page and "credentials at ACME-HEALTH" in page
            assert "No payer with this id" in await console.get(f"{APP}/payers/NOBODY", 404)

    await run_scenario(scenario)
