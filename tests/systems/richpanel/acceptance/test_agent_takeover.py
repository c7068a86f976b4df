"""Agent takeover, against the sandbox help desk: an agent's message stops automatic replies."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast_demo.richpanel.sandbox.help_desk import Message
from richpanel.domain.templates import get_template
from tests.systems.richpanel.acceptance.middleware import Middleware, run, start_middleware

QUESTION = "What is the status of my order?"


async def add_agent_message(middleware: Middleware, text: str) -> None:
    """Add an agent's message at the help desk and deliver its webhook."""
    ticket = middleware.sandbox.desk.find_ticket("c-1")
    assert ticket is not None
    middleware.clock.advance(60)
    at = datetime.fromtimestamp(middleware.clock.now(), UTC).isoformat()
    ticket.messages.append(Message("ag-1", "agent", text, at))  # type: ignore[arg-type]
    payload = {
        "ticket_id": "c-1",
        "message_id": "ag-1",
        "author": "agent",
        "trigger": "reply",
        "created_at": at,
    }
    assert (await middleware.deliver(payload)).status_code == 200
    await middleware.drain_queue()


@pytest.mark.parametrize(
    ("text", "answered"),
    [("Hello, Tom here: let me look into it.", False), (get_template("handed_over").text, True)],
)
def test_agents_message_stops_replies_unless_it_is_our_template(text: str, answered: bool) -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await middleware.send("I can't log in")
            await middleware.drain_queue()
            before = len(middleware.ledger)
            await add_agent_message(middleware, text)
            assert len(middleware.ledger) == before
            middleware.clock.advance(60)
            await middleware.send(QUESTION)
            await middleware.drain_queue()
            assert ("message" in [effect for effect, _ in middleware.effects]) is answered
            state = await middleware.get_state()
            assert state is not None and state.handed_over is not answered

    run(test())
