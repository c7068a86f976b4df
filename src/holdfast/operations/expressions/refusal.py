"""How the parts of the parser refuse an expression: the reason alone, before it is known which parameter it
came in. The entry points of `parser.py` turn it into `InvalidRequest` with DynamoDB's complete text.
"""

from __future__ import annotations


class Refused(Exception):
    """`reason` is DynamoDB's text without the "Invalid …Expression: " in front."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def refusal(reason: str, **details: object) -> Refused:
    """DynamoDB's form of a reason with details: `reason; first detail: x, second detail: y`."""
    told = ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in details.items())
    return Refused(f"{reason}; {told}" if told else f"{reason};")
