"""The error that the parts of the parser raise: the reason alone, without the name of the request parameter.
The entry points of `parser.py` turn it into `InvalidRequest` with DynamoDB's complete text.
"""

from __future__ import annotations


class ExpressionError(Exception):
    """An invalid expression. `reason` is DynamoDB's text without the leading "Invalid …Expression: "."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def build_expression_error(reason: str, **details: object) -> ExpressionError:
    """Build an error with details in DynamoDB's form: `reason; first detail: x, second detail: y`."""
    detail = ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in details.items())
    return ExpressionError(f"{reason}; {detail}" if detail else f"{reason};")
