"""Richpanel on data that a released version wrote: workers finish the open work, each effect once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import InProgress, RateLimited
from holdfast.guarantees import Claim, OnceStatus, erase, is_proof_intact
from richpanel.model import patterns, replay_archive
from richpanel.model.entities import IdempotencyRecord
from richpanel.system import SYSTEM
from tests.corpus.archive import SUFFIX, list_releases_with, load_notes, unpack
from tests.corpus.richpanel_stage import NAME, QUESTIONS, CorpusStage, open_stage

pytestmark = pytest.mark.anyio

DEAD = ("dead", "refused")
# Above the message numbers in the data.
NUMBERS_FROM = 100


@dataclass
class Corpus:
    """Stage on unpacked data, with the generator's notes."""

    stage: CorpusStage
    notes: Any

    @property
    def expected(self) -> dict[str, list[str]]:
        """Return the final effect keys of each conversation with unfinished work, in order."""
        return dict(self.notes["expected"])

    def event_id(self, conversation: str) -> str:
        """Return the id of the first event of a conversation with unfinished work."""
        return f"evt:rp:{conversation}:{self.expected[conversation][0].rpartition(':')[2]}"

    async def record(self, key: str) -> IdempotencyRecord:
        """Return the idempotency record with this key; fail if there is none."""
        found = await self.stage.get_record(key)
        assert found is not None, key
        return found

    def webhook(self, conversation: str) -> dict[str, Any]:
        """Return the webhook about the last message of a conversation, as the help desk sent it."""
        ticket = self.stage.sandbox.desk.find_ticket(conversation)
        assert ticket is not None
        message = [each for each in ticket.messages if each.author == "customer"][-1]
        return {
            "ticket_id": conversation,
            "conversation_id": conversation,
            "message_id": message.id,
            "created_at": message.created_at,
            "channel": ticket.channel,
            "trigger": "customer_message",
        }


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=list_releases_with(NAME), ids=lambda release: release.name)
async def corpus(anyio_backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Corpus]:
    """Open the unpacked data with a fresh help desk, in which the noted steps are replayed."""
    release: Path = request.param
    notes = load_notes(release, NAME)
    unpack(release / f"{NAME}{SUFFIX}", tmp_path / "data")
    async with open_stage(tmp_path / "data", notes["begins"]) as stage:
        for step in notes["steps"]:
            await stage.replay(step)
        stage.clock.advance(notes["at"] - stage.clock.now())
        stage._written = NUMBERS_FROM
        yield Corpus(stage, notes)


# --- stored data --------------------------------------------------------------------------------------------


async def test_cursor_continues_its_pages_and_is_reproduced(corpus: Corpus) -> None:
    for name, (question, key) in QUESTIONS.items():
        kept = corpus.notes["pages"][name]
        rest = await corpus.stage.stores.all(question(kept["cursor"]))
        assert [key(each) for each in rest] == kept["rest"], name
        first = await corpus.stage.stores.run(question(None))
        assert ([key(each) for each in first], first.cursor) == (kept["first"], kept["cursor"]), name


async def test_reads_states_audit_and_failures(corpus: Corpus) -> None:
    api = corpus.stage.api
    risky, asked = [(await api.get(f"/conversations/{name}")).json() for name in ("risky", "asked")]
    assert (risky["last_routed_team"], risky["risk_flags"]) == ("risk", ["chargeback"])
    assert (asked["pending_flow"]["type"], asked["replies"]["ask_order_number"]["count"]) == (
        "need_order_number",
        1,
    )
    shadow = (await api.get("/conversations/shadow/why")).json()["actions"]
    assert [each["target"] for each in shadow if each["shadow"]] == ["ask_order_number"]
    for name, error in corpus.notes["failures"].items():
        record = await corpus.record(corpus.event_id(name))
        assert (record.status, record.error) == (OnceStatus.FAILED, error)


async def test_decrypts_the_archive_and_finishes_an_erasure_after_the_hold(
    corpus: Corpus,
) -> None:
    replay = corpus.stage.stores.for_component("replay")
    kept = await replay.run(replay_archive.archived("lost", corpus.event_id("lost")))
    assert json.loads(kept.body)["event"]["text"] == "Where is my order #W2378156?"

    stores, erased = corpus.stage.stores, corpus.notes["erased"]
    assert is_proof_intact(erased["proof"])
    held = {"conversation_id": "erased", "event_id": erased["event_id"]}
    assert (await erase(SYSTEM, stores, erased["customer"], kind="customer")).deleted == {}
    await stores.run(replay_archive.replays.set_legal_hold(False, **held))
    done = await erase(SYSTEM, stores, erased["customer"], kind="customer")
    assert done.deleted == {"rp-mw-replay-archive": 1, "rp_mw_customers": 1}


# --- unfinished work ----------------------------------------------------------------------------------------


async def test_finishes_queued_and_interrupted_events_once_and_in_order(corpus: Corpus) -> None:
    stage = corpus.stage
    # It waits behind the killed worker's message, and behind the next one.
    newest = (await stage.send("I can't log in", "lost")).rpartition(":")[2]
    await stage.drain_queue()
    for conversation in corpus.expected.keys() - DEAD:
        done = stage.list_references(conversation)
        assert [each.idempotency_key for each in await stage.list_audit(conversation)] == done, conversation
        if conversation == "lost":
            done, rest = done[:-3], done[-3:]
            assert {each.rpartition(":")[2] for each in rest} == {newest}
        assert done == corpus.expected[conversation], conversation
        assert (await corpus.record(corpus.event_id(conversation))).status is OnceStatus.PROCESSED
    assert max(Counter(each.reference for each in stage.ledger).values()) == 1
    report = await stage.get_queue_report()
    assert (report.waiting.backlog, report.dead) == (0, 2)
    # The killed worker made the first attempt.
    assert (await corpus.record(corpus.event_id("lost"))).attempts == 2


async def test_claim_of_a_killed_worker_holds_until_its_lease_ends(corpus: Corpus) -> None:
    record, stores = await corpus.record(corpus.event_id("lost")), corpus.stage.stores
    assert record.status is OnceStatus.PROCESSING and record.plan is not None
    with pytest.raises(InProgress):
        await patterns.EVENTS.claim(stores, record)
    corpus.stage.clock.advance(patterns.LEASE_S)
    taken = await patterns.EVENTS.claim(stores, record)
    assert isinstance(taken, Claim) and taken.record.plan == record.plan


async def test_processes_dead_letters_after_a_redrive(corpus: Corpus) -> None:
    assert await corpus.stage.redrive() == 2
    await corpus.stage.drain_queue()
    for conversation in DEAD:
        assert corpus.stage.list_references(conversation) == corpus.expected[conversation]
    # Permanently refused requests are not repeated.
    assert (await corpus.stage.get_queue_report()).dead == 1
    refused = await corpus.record(corpus.event_id("refused"))
    assert (refused.status, refused.error) == (OnceStatus.FAILED, corpus.notes["failures"]["refused"])
    tag = await corpus.record(f"act:rp_tag:refused:mw-routed:{corpus.event_id('refused').rpartition(':')[2]}")
    assert (tag.refused, tag.attempts) == ("404", 1)


async def test_queue_and_record_recognize_duplicate_webhooks(corpus: Corpus) -> None:
    stage = corpus.stage
    before, effects = (await stage.get_queue_report()).waiting.backlog, stage.list_references("answered")
    assert (await stage.deliver(corpus.webhook("chat"))).status_code == 200
    assert (await stage.get_queue_report()).waiting.backlog == before
    assert (await stage.deliver(corpus.webhook("answered"))).status_code == 200
    assert (await stage.get_queue_report()).waiting.backlog == before + 1
    await stage.drain_queue()
    assert stage.list_references("answered") == effects
    assert stage.list_references("chat") == corpus.expected["chat"]


async def test_kill_switch_withdraws_a_planned_reply_and_finds_a_sent_one(corpus: Corpus) -> None:
    stage = corpus.stage
    seen = (await stage.api.get("/switches")).json()
    assert (seen["safe_mode"], seen["automation_enabled"], seen["channels"]) == (False, True, ["email"])
    turned = await stage.api.put("/switches", json={"safe_mode": True, "by": "the operator"})
    assert turned.json()["version"] == seen["version"] + 1
    await stage.drain_queue()
    assert stage.list_references("lost")[:2] == corpus.expected["lost"][:2]
    assert not any("rp_reply" in each for each in stage.list_references("lost"))
    assert stage.list_references("unknown") == corpus.expected["unknown"]
    state = await stage.get_state("unknown")
    assert state is not None and state.replies["order_status"].count == 1


async def test_customer_who_was_asked_answers_and_gets_a_reply(corpus: Corpus) -> None:
    await corpus.stage.send("W2378156", "asked")
    await corpus.stage.drain_queue()
    ticket = corpus.stage.sandbox.desk.find_ticket("asked")
    assert ticket is not None and "8156" in ticket.messages[-1].text
    state = await corpus.stage.get_state("asked")
    assert state is not None and state.pending_flow is None and state.last_routed_team == "orders"


async def test_counted_calls_still_fill_the_rate_limit(corpus: Corpus) -> None:
    stores = corpus.stage.stores
    with pytest.raises(RateLimited) as full:
        await patterns.CALLS.take(stores, patterns.HELP_DESK)
    corpus.stage.clock.advance(full.value.retry_after_s or 0)
    assert await patterns.CALLS.take(stores, patterns.HELP_DESK) == patterns.CALLS.limit - 1
