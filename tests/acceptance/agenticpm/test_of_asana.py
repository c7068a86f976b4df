"""A project of Asana, over real HTTP: read, read anew when its token was forgotten, and commented on once."""

from __future__ import annotations

from pathlib import Path

from agenticpm.demo.demo_processes import DemoProcesses, onboard_project
from agenticpm.demo.sandbox.asana import AsanaSandbox, build_asana_app
from agenticpm.demo.sandbox.asana_data import SEED
from agenticpm.integrations.factory import build_sandbox_credentials
from agenticpm.model import patterns
from agenticpm.model.entities import Integration, ProjectId
from holdfast.web import serve_in_thread
from holdfast.web.sandbox_faults import Faults
from tests.acceptance.agenticpm.engines import played


def test_a_project_of_asana_is_looked_after_and_read_anew_when_its_token_was_forgotten(
    tmp_path: Path,
) -> None:
    async def story(stage: DemoProcesses) -> None:
        asana = AsanaSandbox(clock=stage.clock)
        tasks = {each["name"]: gid for gid, each in asana.data.tasks.items()}
        refund, board = tasks["Refund a cancelled crossing"], tasks["Show delays on the board"]
        with serve_in_thread(build_asana_app(asana)) as url:
            credentials = build_sandbox_credentials(Integration.asana, url)
            await stage.call_api("PUT", "/integrations/asana/credentials", credentials)
            project = await onboard_project(stage, source="asana", sourceProjectKey=SEED["project"])
            await stage.advance_to_morning()
            (first,) = (await stage.run_turn()).cycles
            assert (first.errors, first.tickets > 0) == ([], True)
            assert f"blocked:{refund}" in await _told(stage, project)

            # What was overdue then comes into the RAID log, and is told from there.
            await stage.run_turn()

            asana.expire()
            stage.clock.advance(60)
            asana.data.edit(board, {"section": "Blocked", "Blocker": "No panel"})
            before = await _told(stage, project)
            (anew,) = (await stage.run_turn()).cycles
            assert (anew.errors, anew.tickets) == ([], first.tickets)
            assert await _told(stage, project) == [*before, f"blocked:{board}"]

            await stage.advance_past_hold()
            asana.faults = Faults(failed_after=1.0)
            assert len((await stage.execute_due()).later) > 0
            asana.faults = Faults()
            stage.clock.advance(120)
            assert (await stage.execute_due()).later == []
            commented = [each["ticket"] for each in asana.ledger]
            assert sorted(commented) == sorted({*commented, refund, board})
            assert (await stage.execute_due()).done == []

    played("memory", tmp_path, story)


async def _told(stage: DemoProcesses, project: ProjectId) -> list[str]:
    """Oldest first."""
    found = await stage.stores.all(patterns.project_events(project))
    told = [each.detail or {} for each in reversed(found.items) if each.event_type == "signal_detected"]
    return [f"{each['signal']}:{each['subject']}" for each in told]
