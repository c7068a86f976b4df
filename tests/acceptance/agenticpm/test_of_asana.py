"""A project of Asana, over real HTTP: read, read anew when its token was forgotten, and commented on once."""

from __future__ import annotations

from pathlib import Path

from agenticpm import patterns
from agenticpm.connectors.opening import sandbox_credentials
from agenticpm.model import Integration, ProjectId
from agenticpm.sandbox.asana import AsanaSandbox, asana_app
from agenticpm.sandbox.asana_data import SEED
from agenticpm.stage import Stage, onboarded
from holdfast.web import serving
from holdfast.web.sandboxes import Faults
from tests.acceptance.agenticpm.engines import played


def test_a_project_of_asana_is_looked_after_and_read_anew_when_its_token_was_forgotten(
    tmp_path: Path,
) -> None:
    async def story(stage: Stage) -> None:
        asana = AsanaSandbox(clock=stage.clock)
        tasks = {each["name"]: gid for gid, each in asana.data.tasks.items()}
        refund, board = tasks["Refund a cancelled crossing"], tasks["Show delays on the board"]
        with serving(asana_app(asana)) as url:
            credentials = sandbox_credentials(Integration.asana, url)
            await stage.ask("PUT", "/integrations/asana/credentials", credentials)
            project = await onboarded(stage, source="asana", sourceProjectKey=SEED["project"])
            await stage.morning()
            (first,) = (await stage.turn()).cycles
            assert (first.errors, first.tickets > 0) == ([], True)
            assert f"blocked:{refund}" in await _told(stage, project)

            # What was overdue then comes into the RAID log, and is told from there.
            await stage.turn()

            asana.expire()
            stage.clock.advance(60)
            asana.data.edit(board, {"section": "Blocked", "Blocker": "No panel"})
            before = await _told(stage, project)
            (anew,) = (await stage.turn()).cycles
            assert (anew.errors, anew.tickets) == ([], first.tickets)
            assert await _told(stage, project) == [*before, f"blocked:{board}"]

            await stage.hold_over()
            asana.faults = Faults(failed_after=1.0)
            assert len((await stage.execute()).later) > 0
            asana.faults = Faults()
            stage.clock.advance(120)
            assert (await stage.execute()).later == []
            commented = [each["ticket"] for each in asana.ledger]
            assert sorted(commented) == sorted({*commented, refund, board})
            assert (await stage.execute()).done == []

    played("memory", tmp_path, story)


async def _told(stage: Stage, project: ProjectId) -> list[str]:
    """Oldest first."""
    found = await stage.stores.all(patterns.project_events(project))
    told = [each.detail or {} for each in reversed(found.items) if each.event_type == "signal_detected"]
    return [f"{each['signal']}:{each['subject']}" for each in told]
