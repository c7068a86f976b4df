"""What the routes of all rooms share: answers as plain JSON, and which version a caller has seen."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import Depends, Header, HTTPException, Query
from fastapi.responses import JSONResponse, Response

from agenticpm.showing import shown
from holdfast import Page
from holdfast.errors import ConditionFailed, Conflict, InvalidRequest
from holdfast.web import problem_response

NOT_THERE: Final[dict[int | str, dict[str, Any]]] = {404: problem_response("There is no such thing.")}
OVERTAKEN: Final[dict[int | str, dict[str, Any]]] = {
    409: problem_response("It is no longer as it was seen, or does not allow this any more: read it again."),
}
PRECONDITIONS: Final[dict[int | str, dict[str, Any]]] = {
    **OVERTAKEN,
    412: problem_response("The version in If-Match is not the present one: read it again."),
    428: problem_response("It was not said which version was seen."),
}
_TAG: Final = re.compile(r'"(\d{1,9})"')


def answered(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(shown(value), status, headers=headers)


def page_of(page: Page[Any]) -> Response:
    return answered({"items": list(page), "cursor": page.cursor})


def tag_of(version: int) -> str:
    return f'"{version}"'


class Seen:
    """The version that a caller has seen: by the header If-Match, or as the parameter `version`; 0 where there was none."""

    def __init__(
        self,
        if_match: Annotated[str | None, Header(description='The ETag that was seen, such as "3".')] = None,
        version: Annotated[
            int | None, Query(ge=0, description="The same as a number; 0 where there was none.")
        ] = None,
    ) -> None:
        if if_match is None and version is None:
            raise HTTPException(
                428, 'Say which version you have seen: If-Match: "3", or ?version=3; 0 where there was none.'
            )
        self.is_header = if_match is not None
        stated = _version(if_match) if if_match is not None else version
        if version is not None and stated != version:
            raise InvalidRequest(f"If-Match says version {stated}, and the parameter {version}: say one.")
        self.version = int(stated or 0)

    def told(self, error: Conflict) -> Conflict:
        """The same refusal, as a precondition that failed where it was stated as one."""
        return ConditionFailed(error.message) if self.is_header else error


SeenVersion = Annotated[Seen, Depends(Seen)]


def _version(if_match: str) -> int:
    tag = _TAG.fullmatch(if_match.strip())
    if tag is None:
        raise InvalidRequest(f'If-Match is one ETag as it was given, such as "3", and not {if_match!r}.')
    return int(tag[1])
