"""What a party answers, read into a declared shape: what is missing or of another kind is nonsense, and is named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, TypeVar

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, ValidationError

from holdfast.errors import PartyFailed

FAULTS_SHOWN_MAX: Final = 3
ID: Final = re.compile(r"[A-Za-z0-9_=.\-]{1,80}")


def _text(value: Any) -> Any:
    """Times come as text; a number would be read as seconds, and is no time of any party."""
    if not isinstance(value, str):
        raise ValueError("should be a time in text")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_text)]


class Shape(BaseModel):
    """What is wanted of an answer; whatever else is in it is left out."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


S = TypeVar("S", bound=Shape)


def shaped(kind: type[S], body: Any, party: str, *, may_be_done: bool = False) -> S:
    """The answer in its shape, or PartyFailed with where it is wrong, and of what; never with what stands there."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        faults: Iterable[Any] = error.errors(include_input=False, include_url=False)[:FAULTS_SHOWN_MAX]
        said = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the answer'}: {each['msg']}{_whose(body, each['loc'])}"
            for each in faults
        )
        raise PartyFailed(f"{party} answers nonsense: {said}.", may_be_done=may_be_done) from None


def _whose(body: Any, place: Sequence[int | str]) -> str:
    """Which thing it is that is wrong, by the innermost id on the way there: a person must be able to find it."""
    found, here = "", body
    for step in place:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            break
        id = (here.get("gid") or here.get("id")) if isinstance(here, dict) else None
        found = id if isinstance(id, str) and ID.fullmatch(id) else found
    return f" (of {found})" if found else ""
