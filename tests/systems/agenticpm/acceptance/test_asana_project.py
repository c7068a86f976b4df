"""Acceptance test of an Asana project, against the Asana sandbox over HTTP, with stores in memory."""

from __future__ import annotations

from pathlib import Path

from agenticpm.integrations.factory import build_sandbox_credentials
from agenticpm.model import patterns
from agenticpm.model.entities import Integration, ProjectId
from holdfast.web import serve_in_thread
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.agenticpm.demo_processes import DemoProcesses, onboard_project
from holdfast_demo.agenticpm.sandbox.asana import AsanaSandbox, build_asana_app
from holdfast_demo.agenticpm.sandbox.asana_data import SEED
from tests.systems.agenticpm.acceptance.engines import open_demo_on


async def test_manages_an_asana_project_and_reads_it_fully_after_its_token_expired(
    tmp_path: Path,
) -> None:
    """The full read reports only the new signal; comments whose answers were lost are not repeated."""
    async with open_demo_on("memory", tmp_path) as demo:
        asana = AsanaSandbox(clock=demo.clock)
        tasks = {each["name"]: gid for gid, each in asana.data.tasks.items()}
        refund, board = tasks["Refund a cancelled crossing"], tasks["Show delays on the board"]
        with serve_in_thread(build_asana_app(asana)) as url:
            credentials = build_sandbox_credentials(Integration.asana, url)
            await demo.call_api("PUT", "/integrations/asana/credentials", credentials)
            project = await onboard_project(demo, source="asana", sourceProjectKey=SEED["project"])
            await demo.advance_to_morning()
            (first,) = (await demo.run_turn()).cycles
            assert (first.errors, first.tickets > 0) == ([], True)
            assert f"blocked:{refund}" in await _list_signals(demo, project)

            # Items that were already overdue enter the RAID log and are reported from there.
            await demo.run_turn()

            asana.expire()
            demo.clock.advance(60)
            asana.data.edit(board, {"section": "Blocked", "Blocker": "No panel"})
            before = await _list_signals(demo, project)
            (reread,) = (await demo.run_turn()).cycles
            assert (reread.errors, reread.tickets) == ([], first.tickets)
            assert await _list_signals(demo, project) == [*before, f"blocked:{board}"]

            await demo.advance_past_hold()
            asana.faults = Faults(failed_after=1.0)
            assert len((await demo.execute_due()).later) > 0
            asana.faults = Faults()
            demo.clock.advance(120)
            assert (await demo.execute_due()).later == []
            commented = [each["ticket"] for each in asana.ledger]
            assert sorted(commented) == sorted({*commented, refund, board})
            assert (await demo.execute_due()).done == []


async def _list_signals(demo: DemoProcesses, project: ProjectId) -> list[str]:
    """Return the reported signals, oldest first."""
    found = await demo.stores.all(patterns.project_events(project))
    details = [each.detail or {} for each in reversed(found.items) if each.event_type == "signal_detected"]
    return [f"{each['signal']}:{each['subject']}" for each in details]
