"""AgenticPM on data that a released version wrote: loop, executor and people finish the open work."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agenticpm.model import integration_settings, projects, snapshots
from agenticpm.model.patterns import LEASE_S
from holdfast.runtime import open_cipher
from holdfast.web.sandbox_faults import Faults
from tests.corpus.agenticpm_stage import JIRA, NAME, OUTLOOK, Stage, Step, open_stage
from tests.corpus.archive import SUFFIX, list_releases_with, load_notes, unpack

pytestmark = pytest.mark.anyio

DAY_S = 86400.0
HOLD_S = 30 * 60.0
# Actions without a project.
GLOBAL = ("digest", "outcome_unknown")


@dataclass
class Corpus:
    """Stage on unpacked data, with the generator's notes."""

    stage: Stage
    notes: Any

    def path(self, project: str, rest: str) -> str:
        """Return an API path of the project with this name in the notes."""
        return f"/projects/{self.notes['projects'][project]}/{rest}"

    def action_path(self, name: str) -> str:
        """Return the API path of the action with this name in the notes."""
        scope = "global" if name in GLOBAL else self.notes["projects"]["mcu"]
        return f"/projects/{scope}/actions/{self.notes['actions'][name]}"

    async def get_action(self, name: str) -> Any:
        """Return the action with this name in the notes, as the API shows it."""
        return await self.stage.ask("GET", self.action_path(name))

    async def review(self, name: str, verb: str) -> None:
        """Approve, cancel or reopen the action, as the lead."""
        await self.stage.ask("POST", f"{self.action_path(name)}/{verb}", {"by": "the lead"})

    async def execute(self) -> None:
        """Run the executor of held actions once."""
        await self.stage.run("executor", "held-actions")

    async def run_loop(self) -> None:
        """Run one cycle of the agent's loop."""
        await self.stage.run("loop", "loop")

    def end_leases(self) -> None:
        """Advance the clock until the leases and claims of the killed processes have ended."""
        self.stage.clock.advance(LEASE_S + 1)

    def list_comments(self, ticket: str) -> list[str]:
        """Return the texts that the agent wrote on a ticket."""
        found = [each for each in self.stage.jira.ledger if each["ticket"] == ticket]
        return [each["body"]["content"][0]["content"][0]["text"] for each in found]

    def list_mails(self, words: str) -> list[Any]:
        """Return the sent mails whose subject contains the words."""
        return [each for each in self.stage.resend.ledger if words in each["subject"]]

    async def list_events(self, kind: str) -> list[Any]:
        """Return the events of one kind in all projects; of each project, newest first."""
        pages = [
            await self.stage.list_items(self.path(project, "events?limit=200"))
            for project in self.notes["projects"]
        ]
        return [each for page in pages for each in page if each["eventType"] == kind]

    async def get_question(self, subject: str, status: str = "pending") -> Any:
        """Return the only escalation about this subject that has this status."""
        found = await self.stage.list_items(f"/escalations?status={status}")
        [asked] = [each for each in found if each["context"]["subject"] == subject]
        return asked

    async def decide(self, subject: str, decision: str) -> None:
        """Answer the pending escalation about this subject, as the sponsor."""
        asked = await self.get_question(subject)
        path = f"/projects/{asked['projectId']}/escalations/{asked['id']}/decision"
        await self.stage.ask("POST", path, {"decision": decision, "by": "the sponsor"})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=list_releases_with(NAME), ids=lambda release: release.name)
async def corpus(anyio_backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Corpus]:
    """Open the unpacked data with fresh sandboxes, in which the noted steps are replayed."""
    release: Path = request.param
    notes = load_notes(release, NAME)
    unpack(release / f"{NAME}{SUFFIX}", tmp_path / "data")
    async with open_stage(tmp_path / "data", tmp_path / "clock", notes["begins"]) as stage:
        stage.outlook._generation = notes["outlook_age"]
        for step in notes["steps"]:
            await stage.replay(Step(**step))
        stage.clock.advance(notes["at"] - stage.clock.now())
        yield Corpus(stage, notes)


# --- stored data --------------------------------------------------------------------------------------------


async def test_cursor_continues_its_list_and_is_reproduced(corpus: Corpus) -> None:
    for kept in corpus.notes["lists"]:
        rest = await corpus.stage.list_items(kept["path"], kept["cursor"])
        assert [each["id"] for each in rest] == kept["rest"], kept["path"]
        first = await corpus.stage.get_page(kept["path"])
        assert [each["id"] for each in first["items"]] == kept["first"], kept["path"]
        assert first["cursor"] == kept["cursor"], kept["path"]


async def test_failures_keep_their_recorded_names(corpus: Corpus) -> None:
    names, stage = corpus.notes["failures"], corpus.stage
    refused, unknown = await corpus.get_action("refused"), await corpus.get_action("outcome_unknown")
    assert (refused["status"], refused["error"]) == ("failed", names["refused"])
    assert (unknown["status"], unknown["refused"]) == ("failed", names["outcome_unknown"])
    for id in corpus.notes["actions"].values():
        assert (await stage.ask("GET", f"/why/{id}"))["lines"]

    corpus.end_leases()
    stage.jira.faults = Faults(failed_before=1.0)
    await corpus.run_loop()
    for project, failures in (("mcu", 2), ("asana", 2)):
        events = await stage.list_items(corpus.path(project, "events?limit=200"))
        failed = [each["detail"] for each in events if each["eventType"] == "error"]
        assert [each["error"] for each in failed if "error" in each] == [names[project]] * failures


async def test_reads_the_last_seen_tracker_state_and_keeps_its_name(corpus: Corpus) -> None:
    stores = corpus.stage.stores
    for name in ("mcu", "web"):
        project = await projects.get(stores, corpus.notes["projects"][name])
        pointer = await snapshots.read_checkpoint(stores, project.id, project.source, snapshots.SNAPSHOT)
        seen = await snapshots.load_snapshot(stores, project, pointer)
        assert seen is not None and seen.tickets
        assert await snapshots.store_snapshot(stores, project, seen) == pointer.value


async def test_uses_sealed_credentials_and_seals_them_again(corpus: Corpus) -> None:
    # The sandboxes compare the secrets, so a check passes only with the right ones.
    for name in ("jira", "outlook"):
        await corpus.stage.ask("POST", f"/integrations/{name}/rotate")
        assert (await corpus.stage.ask("POST", f"/integrations/{name}/check"))["health"]["is_ok"], name
    stores, cipher = corpus.stage.stores, open_cipher()
    assert await integration_settings.load_credentials(stores, cipher, "jira") == JIRA
    assert await integration_settings.load_credentials(stores, cipher, "outlook") == OUTLOOK
    asana = await integration_settings.load_credentials(stores, cipher, "asana")
    assert asana["token"] == "the-asana-token-of-the-corpus"
    states = {each["integration"]: each["status"] for each in await corpus.stage.ask("GET", "/integrations")}
    assert states == {"jira": "active", "outlook": "active", "asana": "inactive", "resend": "active"}


# --- the loop -----------------------------------------------------------------------------------------------


async def test_another_loop_takes_over_the_expired_lease_and_repeats_no_signal(corpus: Corpus) -> None:
    lease, before = corpus.notes["lease"], await corpus.stage.get_page("/events")
    await corpus.run_loop()
    agent = await corpus.stage.ask("GET", "/agent")
    assert (agent["loop"]["holder"], agent["loop"]["token"]) == (lease["holder"], lease["token"])
    assert await corpus.stage.get_page("/events") == before

    corpus.end_leases()
    await corpus.run_loop()
    signals = [each["detail"] for each in await corpus.list_events("signal_detected")]
    found = Counter((each["signal"], each["subject"]) for each in signals)
    assert found == Counter(map(tuple, corpus.notes["signals"]))
    assert (
        max([each["detail"]["token"] for each in await corpus.list_events("heartbeat")]) == lease["token"] + 1
    )
    held = [each["detail"].get("ticket") for each in await corpus.stage.list_items("/actions/held")]
    assert held.count("MCU-123") == 1
    assert (await corpus.get_question("WEB-4"))["options"][0]["option"] == "Do it"


async def test_next_cycle_reads_tracker_and_mailbox_from_the_checkpoints(corpus: Corpus) -> None:
    # An already read message: it appears only if the mailbox is read from the beginning.
    next(iter(corpus.stage.outlook.messages.values()))["subject"] = "MCU-125 is at risk"
    corpus.end_leases()
    await corpus.run_loop()
    # The tracker has fifty tickets.
    assert (await _read_last_heartbeat(corpus))["tickets"] < 10
    corpus.stage.clock.advance(HOLD_S)
    await corpus.stage.change("jira", "/sandbox/issues", {"key": "MCU-124", "flagged": True})
    mail = {"subject": "MCU-124 is at risk", "bodyPreview": "It will be delayed.", "from": "lead@example.com"}
    await corpus.stage.change("outlook", "/sandbox/messages", mail)
    await corpus.run_loop()
    beat = await _read_last_heartbeat(corpus)
    assert (beat["tickets"], beat["signals"], beat["errors"]) == (1, 2, 0)
    assert "MCU-125" not in {
        each["detail"]["subject"] for each in await corpus.list_events("signal_detected")
    }


async def _read_last_heartbeat(corpus: Corpus) -> Any:
    """Return the detail of the newest heartbeat of the project MCU."""
    events = await corpus.stage.list_items(corpus.path("mcu", "events"))
    return next(each["detail"] for each in events if each["eventType"] == "heartbeat")


async def test_prepares_the_digest_of_a_day_once(corpus: Corpus) -> None:
    await corpus.stage.run("loop", "daily")
    assert len(await corpus.stage.list_items("/projects/global/actions")) == 2
    corpus.stage.clock.advance(DAY_S)
    await corpus.stage.run("loop", "daily")
    assert len(await corpus.stage.list_items("/projects/global/actions")) == 3


# --- actions ------------------------------------------------------------------------------------------------


async def test_finishes_actions_of_a_killed_executor_and_repeats_nothing(corpus: Corpus) -> None:
    in_work = ("mail_in_work", "comment_in_work", "failed_for_now")
    await corpus.execute()
    assert {(await corpus.get_action(name))["status"] for name in in_work} == {"processing"}
    assert (len(corpus.list_comments("MCU-122")), len(corpus.list_comments("MCU-157"))) == (1, 0)

    corpus.end_leases()
    await corpus.execute()
    assert {(await corpus.get_action(name))["status"] for name in in_work} == {"processed"}
    # The first comment was found at the tracker. The mail was sent again under its key, which the mailer
    # knew.
    assert (len(corpus.list_comments("MCU-122")), len(corpus.list_comments("MCU-157"))) == (1, 1)
    assert len(corpus.list_mails("R900")) == 1
    taken = Counter(each["detail"]["action"] for each in await corpus.list_events("action_taken"))
    assert [taken[corpus.notes["actions"][name]] for name in in_work] == [1, 1, 1]


async def test_executes_an_approved_action_at_once_and_the_others_when_due(corpus: Corpus) -> None:
    await corpus.review("held", "approve")
    await corpus.execute()
    assert corpus.list_comments("MCU-158") == ["Which criteria must this meet before Friday?"]
    assert corpus.list_mails("Digest") == []

    corpus.stage.clock.advance(HOLD_S + 60)
    await corpus.execute()
    assert await corpus.stage.list_items("/actions/held") == []
    assert len(corpus.list_mails("Digest")) == 1
    assert (
        corpus.list_comments("MCU-159") == []
        and (await corpus.get_action("cancelled"))["status"] == "cancelled"
    )
    assert max(Counter(each["reference"] for each in corpus.stage.jira.ledger).values()) == 1


async def test_retries_a_refused_action_once_a_person_reopens_it(corpus: Corpus) -> None:
    done = await corpus.stage.api.post(f"{corpus.action_path('done')}/reopen", json={"by": "the lead"})
    assert done.status_code == 409
    await corpus.execute()
    assert corpus.list_mails("Digest") == []
    for name in ("refused", "outcome_unknown"):
        await corpus.review(name, "reopen")
    await corpus.execute()
    # The ticket is still deleted. The mail is sent, because the person said that it was not.
    assert (await corpus.get_action("refused"))["error"] == corpus.notes["failures"]["refused"]
    assert (await corpus.get_action("outcome_unknown"))["executed"] and len(corpus.list_mails("Digest")) == 1


# --- escalations and artefacts ------------------------------------------------------------------------------


async def test_logs_a_decision_and_executes_the_permitted_action_once(corpus: Corpus) -> None:
    await corpus.decide("WEB-2", "Do it")
    await corpus.decide("Sprint 12", "Move it to the backlog")
    await corpus.execute()
    corpus.end_leases()
    await corpus.execute()
    assert len(corpus.list_comments("WEB-2")) == 1
    for project, ids in (("web", ["D001", "D002"]), ("mcu", ["D001"])):
        log = await corpus.stage.ask("GET", corpus.path(project, "artefacts/decision_log"))
        assert [each["id"] for each in log["content"]["decisions"]] == ids


async def test_unanswered_question_expires(corpus: Corpus) -> None:
    assert {(await corpus.get_question(each))["status"] for each in ("WEB-3", "Sprint 12")} == {"pending"}
    corpus.stage.clock.advance(8 * DAY_S)
    await corpus.stage.run("executor", "escalations")
    assert await corpus.stage.list_items("/escalations") == []
    assert await corpus.get_question("WEB-3", "expired")
    assert (await corpus.get_question("WEB-1", "decided"))["userDecision"] == "Leave it"


async def test_undoes_redoes_and_rewrites_an_artefact_stored_as_an_object(corpus: Corpus) -> None:
    path = corpus.path("web", "artefacts/raid_log")
    seen = await corpus.stage.ask("GET", path)
    assert "R901" in _list_risk_ids(seen)
    undone = await corpus.stage.ask("POST", f"{path}/undo", **{"if-match": f'"{seen["version"]}"'})
    assert undone["version"] == seen["version"] + 1 and "R901" not in _list_risk_ids(undone)
    redone = await corpus.stage.ask("POST", f"{path}/undo", **{"if-match": f'"{undone["version"]}"'})
    assert redone["content"] == seen["content"]
    # The next cycle writes its own version, and keeps what a person added.
    corpus.end_leases()
    await corpus.run_loop()
    written = await corpus.stage.ask("GET", path)
    assert written["version"] == redone["version"] + 1 and "R901" in _list_risk_ids(written)


async def test_keeps_what_a_person_undid_until_there_is_news(corpus: Corpus) -> None:
    path = corpus.path("quiet", "artefacts/raid_log")
    seen = await corpus.stage.ask("GET", path)
    corpus.end_leases()
    await corpus.run_loop()
    assert await corpus.stage.ask("GET", path) == seen
    news = {"project": "QUIET", "summary": "Another page", "status": "In Progress", "flagged": True}
    await corpus.stage.change("jira", "/sandbox/issues", news)
    corpus.stage.clock.advance(HOLD_S)
    await corpus.run_loop()
    assert (await corpus.stage.ask("GET", path))["version"] == seen["version"] + 1


def _list_risk_ids(artefact: Any) -> list[str]:
    """Return the ids of the items of a RAID log."""
    return [each["id"] for each in artefact["content"]["items"]]
