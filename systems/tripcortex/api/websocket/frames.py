"""Encoding of the frames that the server sends over a socket: one JSON object each, with a `kind`.

message  a message to the employee: `messageId`, `about` (options, question, confirmation …),
         `bookingId`, `at`, `body`; sent until it is acknowledged, always under the same id
answer   the result of a client's action: `action`, its `requestId` if given, and further fields
problem  a refused action: `action`, `requestId`, `problem` with `type`, `title`, `status`, `detail`
ping     a heartbeat; needs no answer
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tripcortex.model.entities import Message


def build_message_frame(message: Message) -> str:
    """Return the frame of a stored message; its `kind` is sent as `about`."""
    return _encode_frame(
        {
            "kind": "message",
            "messageId": message.message_id,
            "about": message.kind,
            "bookingId": message.booking_id,
            "at": _format_time(message.at.timestamp()),
            "body": message.body,
        }
    )


def build_ping_frame(now: float) -> str:
    return _encode_frame({"kind": "ping", "at": _format_time(now)})


def build_answer_frame(action: str, request_id: str | None, result: Mapping[str, Any]) -> str:
    """Return the frame that answers an action; `result` are its further fields."""
    return _encode_frame({"kind": "answer", "action": action, "requestId": request_id, **result})


def build_problem_frame(action: str | None, request_id: str | None, problem: Mapping[str, Any]) -> str:
    """Return the frame of a refused action; `action` is None if its name is unreadable."""
    return _encode_frame(
        {"kind": "problem", "action": action, "requestId": request_id, "problem": dict(problem)}
    )


def _format_time(seconds: float) -> str:
    """Format epoch seconds as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def _encode_frame(frame: Mapping[str, Any]) -> str:
    """Encode a frame as compact JSON, without the fields that are None."""
    present = {name: value for name, value in frame.items() if value is not None}
    return json.dumps(present, ensure_ascii=False, separators=(",", ":"), default=_to_json_value)


def _to_json_value(value: Any) -> Any:
    """Convert a value that JSON lacks: a decimal to int or float, any other to text.

    Tables return numbers as decimals.
    """
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)
