"""When a person has the conversation, nothing is answered by itself any more; what we wrote ourselves is no person."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from richpanel.demo.sandbox.help_desk import Message
from richpanel.domain.templates import get_template
from tests.acceptance.richpanel.stage import Stage, run, staged

ASKS = "What is the status of my order?"


async def hear_agent(stage: Stage, text: str) -> None:
    """An agent's message at the help desk, and the webhook about it."""
    ticket = stage.sandbox.desk.find_ticket("c-1")
    assert ticket is not None
    stage.clock.advance(60)
    at = datetime.fromtimestamp(stage.clock.now(), UTC).isoformat()
    ticket.messages.append(Message("ag-1", "agent", text, at))  # type: ignore[arg-type]
    payload = {
        "ticket_id": "c-1",
        "message_id": "ag-1",
        "author": "agent",
        "trigger": "reply",
        "created_at": at,
    }
    assert (await stage.deliver(payload)).status_code == 200
    await stage.work_off()


@pytest.mark.parametrize(
    ("text", "answered"),
    [("Hello, Tom here: let me look into it.", False), (get_template("handed_over").text, True)],
)
def test_after_an_agents_message_nothing_is_answered_and_after_our_own_it_is(
    text: str, answered: bool
) -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            await stage.says("I can't log in")
            await stage.work_off()
            before = len(stage.ledger)
            await hear_agent(stage, text)
            assert len(stage.ledger) == before
            stage.clock.advance(60)
            await stage.says(ASKS)
            await stage.work_off()
            assert ("message" in [effect for effect, _ in stage.effects]) is answered
            state = await stage.state()
            assert state is not None and state.handed_over is not answered

    run(test())
