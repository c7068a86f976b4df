"""What is sent over a socket: one JSON object per frame, told apart by its `kind`.

| kind | what it is |
|---|---|
| `message` | what the employee is told: `messageId`, `about` (options, question, confirmation …), `bookingId`, `at`, `body`; it comes until it is acknowledged, always under the same id |
| `answer` | to an action of the client: `action`, its `requestId` where it gave one, and what came of it |
| `problem` | an action that was refused: `action`, `requestId`, `problem` with `type`, `title`, `status`, `detail` |
| `ping` | is anybody there; nothing needs to be answered |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tripcortex.model import Message


def message_frame(message: Message) -> str:
    return _text(
        {
            "kind": "message",
            "messageId": message.message_id,
            "about": message.kind,
            "bookingId": message.booking_id,
            "at": _moment(message.at.timestamp()),
            "body": message.body,
        }
    )


def ping_frame(now: float) -> str:
    return _text({"kind": "ping", "at": _moment(now)})


def answer_frame(action: str, request_id: str | None, told: Mapping[str, Any]) -> str:
    return _text({"kind": "answer", "action": action, "requestId": request_id, **told})


def problem_frame(action: str | None, request_id: str | None, problem: Mapping[str, Any]) -> str:
    return _text({"kind": "problem", "action": action, "requestId": request_id, "problem": dict(problem)})


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def _text(frame: Mapping[str, Any]) -> str:
    told = {name: value for name, value in frame.items() if value is not None}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    """Tables give numbers as decimals."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)
