"""Who may do what on the pages of AgenticPM: everybody who sees the system reads, an operator decides.

Personal data is masked until a user with the role `personal` reveals a page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends
from starlette.requests import Request

from holdfast.console import OPERATOR, PERSONAL, CurrentUser, check_role, is_revealed
from holdfast.guarantees import redact, redact_value

SYSTEM: Final = "agenticpm"


async def _check_operator(user: CurrentUser) -> None:
    check_role(user, OPERATOR, SYSTEM)


OPERATOR_ONLY: Final = Depends(_check_operator)
"""The dependency of a route that changes something."""


@dataclass(frozen=True)
class Reader:
    """Who reads a page: whether they may decide, and whether they see personal data."""

    may_decide: bool
    # The user has asked for personal data on this page, which is recorded.
    is_revealed: bool
    may_reveal: bool

    def mask(self, value: Any) -> Any:
        """Return a text, or a value with texts, without personal data, unless the page is revealed."""
        if self.is_revealed:
            return value
        return redact(value) if isinstance(value, str) else redact_value(value)


async def _read_reader(request: Request, user: CurrentUser) -> Reader:
    return Reader(
        may_decide=user.has_role(OPERATOR, SYSTEM),
        is_revealed=is_revealed(request, user, SYSTEM),
        may_reveal=user.has_role(PERSONAL, SYSTEM),
    )


CurrentReader = Annotated[Reader, Depends(_read_reader)]
"""A parameter of a route: who reads the page."""
