"""Shared parts of the HTTP routes: JSON responses, problem descriptions, and the version in If-Match."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import Depends, Header, HTTPException, Query
from fastapi.responses import JSONResponse, Response

from agenticpm.api.serializers import to_json
from holdfast import Page
from holdfast.core.errors import ConditionFailed, Conflict, InvalidRequest
from holdfast.web import describe_problem

NOT_FOUND: Final[dict[int | str, dict[str, Any]]] = {404: describe_problem("The resource does not exist.")}
CONFLICT: Final[dict[int | str, dict[str, Any]]] = {
    409: describe_problem("The resource has changed, or its state does not allow this. Read it again."),
}
PRECONDITIONS: Final[dict[int | str, dict[str, Any]]] = {
    **CONFLICT,
    412: describe_problem("The version in If-Match is not the current one. Read it again."),
    428: describe_problem("The expected version is missing. Send If-Match or `version`."),
}
MAX_VERSION: Final = 999_999_999
_ETAG: Final = re.compile(r'"(\d{1,9})"')


def build_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Build a JSON response from a value."""
    return JSONResponse(to_json(value), status, headers=headers)


def build_page_response(page: Page[Any]) -> Response:
    """Build the response of a page: its items and the cursor of the next page."""
    return build_response({"items": list(page), "cursor": page.cursor})


def format_etag(version: int) -> str:
    """Return the ETag of a version."""
    return f'"{version}"'


class ExpectedVersion:
    """The version that the caller expects: from the header If-Match or the parameter `version`.

    It is 0 if none exists. A request with neither is answered with 428.
    """

    def __init__(
        self,
        if_match: Annotated[str | None, Header(description='The expected ETag, such as "3".')] = None,
        version: Annotated[
            int | None,
            Query(ge=0, le=MAX_VERSION, description="The expected version as a number; 0 if none exists."),
        ] = None,
    ) -> None:
        if if_match is None and version is None:
            raise HTTPException(
                428, 'Send the expected version: If-Match: "3", or ?version=3; 0 if none exists.'
            )
        self.is_if_match = if_match is not None
        stated = _parse_etag(if_match) if if_match is not None else version
        if version is not None and stated != version:
            raise InvalidRequest(f"If-Match has version {stated}, the parameter {version}. Send one of them.")
        self.version = int(stated or 0)

    def to_precondition(self, error: Conflict) -> Conflict:
        """Return the conflict as a failed precondition if the caller used If-Match, else unchanged."""
        return ConditionFailed(error.message) if self.is_if_match else error


IfMatchVersion = Annotated[ExpectedVersion, Depends(ExpectedVersion)]


def _parse_etag(if_match: str) -> int:
    """Return the version in an ETag such as "3". Raise InvalidRequest if it has another form."""
    tag = _ETAG.fullmatch(if_match.strip())
    if tag is None:
        raise InvalidRequest(f'Invalid If-Match {if_match!r}: expected one ETag as received, such as "3".')
    return int(tag[1])
