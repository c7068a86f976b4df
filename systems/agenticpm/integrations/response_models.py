"""Validation of responses from external services by Pydantic models; an error names the invalid field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, TypeVar

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, ValidationError

from holdfast.core.errors import ExternalServiceFailed

MAX_FAULTS_SHOWN: Final = 3
ID: Final = re.compile(r"[A-Za-z0-9_=.\-]{1,80}")


def _require_text(value: Any) -> Any:
    """Require a string: pydantic would read a number as seconds, and no service sends times as numbers."""
    if not isinstance(value, str):
        raise ValueError("expected a time as text")
    return value


ResponseTime = Annotated[AwareDatetime, BeforeValidator(_require_text)]


class ResponseModel(BaseModel):
    """Base class of response models. Fields that are not declared are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


S = TypeVar("S", bound=ResponseModel)


def parse_response(kind: type[S], body: Any, service: str, *, may_be_done: bool = False) -> S:
    """Parse a response body by its model.

    Raise ExternalServiceFailed with the path and reason of the first three faults, never the value.
    `may_be_done`: the request may have had an effect.
    """
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        faults: Iterable[Any] = error.errors(include_input=False, include_url=False)[:MAX_FAULTS_SHOWN]
        reasons = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the response'}: "
            f"{each['msg']}{_format_owner(body, each['loc'])}"
            for each in faults
        )
        raise ExternalServiceFailed(
            f"Invalid response from {service}: {reasons}.", may_be_done=may_be_done
        ) from None


def _format_owner(body: Any, path: Sequence[int | str]) -> str:
    """Format the innermost id on the path to a fault, so that a person finds the object; or an empty text."""
    found, here = "", body
    for step in path:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            break
        id = (here.get("gid") or here.get("id")) if isinstance(here, dict) else None
        found = id if isinstance(id, str) and ID.fullmatch(id) else found
    return f" (of {found})" if found else ""
