"""The webhooks that the benchmarks send, and their secret."""

from __future__ import annotations

from typing import Final

CONVERSATIONS = 300
SECRET: Final = "the secret of this benchmark"
TEXT: Final = (
    "Hello, where is my order? It should have arrived last week, and I have not heard anything since."
)


def build_webhook(number: int) -> dict[str, object]:
    """Return the body of the webhook with this number, as the help desk sends it."""
    return {
        "ticket_id": f"conversation-{number % CONVERSATIONS}",
        "message_id": f"message-{number:09d}",
        "ticket_url": f"https://desk.example/tickets/{number % CONVERSATIONS}",
        "trigger": "customer_message",
        "channel": "email",
        "created_at": "2026-11-15T10:00:00Z",
        "text": TEXT,
        "customer": {"email": f"customer{number % CONVERSATIONS}@example.com"},
        "tags": ["new", "vip"],
    }
