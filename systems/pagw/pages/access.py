"""Who may do what on the pages of PAGW: everybody who sees the system reads, an operator acts.

A row holds no PHI. Texts of external services and clients may, so they pass the gateway's redactor until a
user with the role `personal` reveals a page. The contents of a request are read only then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import Depends
from starlette.requests import Request

from holdfast.console import OPERATOR, PERSONAL, CurrentUser, check_role, is_revealed
from pagw.domain.redaction import redact

SYSTEM: Final = "pagw"
ROOT: Final = f"/apps/{SYSTEM}"


async def _check_operator(user: CurrentUser) -> None:
    check_role(user, OPERATOR, SYSTEM)


OPERATOR_ONLY: Final = Depends(_check_operator)
"""The dependency of a route that changes something."""


@dataclass(frozen=True)
class Reader:
    """Who reads a page: whether they may act, and whether they see PHI."""

    may_operate: bool
    # The user has asked for PHI on this page, which is recorded.
    is_revealed: bool
    may_reveal: bool

    def mask(self, text: str | None) -> str:
        """Return a text without PHI, unless the page is revealed; empty for None."""
        if not text:
            return ""
        return text if self.is_revealed else redact(text)


async def _read_reader(request: Request, user: CurrentUser) -> Reader:
    return Reader(
        may_operate=user.has_role(OPERATOR, SYSTEM),
        is_revealed=is_revealed(request, user, SYSTEM),
        may_reveal=user.has_role(PERSONAL, SYSTEM),
    )


CurrentReader = Annotated[Reader, Depends(_read_reader)]
"""A parameter of a route: who reads the page."""


def build_address(path: str, parameters: Mapping[str, Any]) -> str:
    """Return the address of a page of PAGW; empty parameters are left out."""
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    return ROOT + path + (f"?{urlencode(given)}" if given else "")
