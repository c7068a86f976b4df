"""Policy routes, for admins only: upload, list, replace, roll back or forward, remove, and try a question.

An upload is accepted (202) and ingested later: its status shows the progress, or why it failed.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from starlette.datastructures import UploadFile

from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.web import JsonBody
from holdfast.web.bodies import RequestBody, limit_body, read_body
from tripcortex.api.identity import Employee
from tripcortex.api.routes.auth import Gate
from tripcortex.api.routes.parameters import EditionId, PolicyId
from tripcortex.api.routes.schemas import (
    Passage,
    Policies,
    PolicyView,
    QuestionAsked,
    Tried,
    build_policy_view,
)
from tripcortex.domain.policy_rules.travel_policy import TravelPolicy
from tripcortex.integrations.ai_models import open_embedding
from tripcortex.model.policies import patterns
from tripcortex.policies.ingestion import (
    Upload,
    load_policy,
    remove,
    replace,
    roll_back,
    roll_forward,
    upload,
)
from tripcortex.policies.retrieval import retrieve
from tripcortex.policies.uploads import get_document_id

FORM_MEDIA_TYPE: Final = "multipart/form-data"
FILE_FIELD: Final = "file"
RULES_FIELD: Final = "rules"
MAX_RULES_BYTES: Final = 256 * 1024
# What a form may have in addition to its file.
MAX_FORM_BYTES: Final = MAX_RULES_BYTES + 64 * 1024
MAX_UPLOAD_S: Final = 60.0
UNSUPPORTED: Final = 415
BINARY: Final[Mapping[str, Any]] = {"schema": {"type": "string", "format": "binary"}}
FILE_CONTENT: Final[Mapping[str, Any]] = {
    FORM_MEDIA_TYPE: {
        "schema": {
            "type": "object",
            "required": [FILE_FIELD],
            "properties": {
                FILE_FIELD: {"type": "string", "format": "binary"},
                RULES_FIELD: {
                    "type": "string",
                    "description": "The policy's rules in machine-readable form, as JSON; a field or a file.",
                },
            },
        }
    },
    "application/pdf": BINARY,
    "text/markdown": BINARY,
    "application/octet-stream": BINARY,
}

STORED: Final = "The file is stored. Read the edition to follow its ingestion."


class PolicyFile(NamedTuple):
    """An uploaded file: its name without folders, its bytes, and the policy's rules if they were sent."""

    name: str
    content: bytes
    rules: dict[str, Any] | None = None


class PolicyFileBody(RequestBody):
    """A dependency that reads an upload by its content type: a form with a file, or a file's bytes with its
    name in the query.

    Raise 415 for JSON, a URL-encoded form or no content type, 413 if the file is larger than `max_bytes`.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__(FILE_CONTENT)
        self._max_bytes = max_bytes

    async def __call__(
        self,
        request: Request,
        file_name: Annotated[
            str,
            Query(
                alias="fileName", description="The name of the file. Needed if the body is the file itself."
            ),
        ] = "",
    ) -> PolicyFile:
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media == FORM_MEDIA_TYPE:
            return await _parse_form(limit_body(request, self._max_bytes + MAX_FORM_BYTES))
        if media in ("application/json", "application/x-www-form-urlencoded", ""):
            raise HTTPException(
                UNSUPPORTED,
                "Send the file as the body, with its content type and ?fileName=…, or in a form as `file`.",
            )
        return PolicyFile(_strip_folders(file_name), await read_body(request, self._max_bytes, MAX_UPLOAD_S))


def build_policy_routes(gate: Gate) -> APIRouter:
    """Return the routes that upload, list, read and replace policies."""
    router = APIRouter(tags=["policies"])
    stores, max_bytes = gate.stores, gate.settings.policy_bytes_max

    @router.post(
        "/policies",
        operation_id="uploadPolicy",
        summary="Upload a policy document (PDF or Markdown)",
        status_code=202,
        response_description=STORED,
    )
    async def upload_policy(
        employee: Annotated[Employee, Depends(gate.admin)],
        file: Annotated[PolicyFile, Depends(PolicyFileBody(max_bytes))],
        response: Response,
    ) -> PolicyView:
        policy = await upload(stores, _build_upload(file, employee), max_bytes=max_bytes)
        response.headers["location"] = f"/policies/{policy.id}"
        return build_policy_view(policy)

    @router.get("/policies", operation_id="listPolicies", summary="List all editions of all policies")
    async def list_policies(employee: Annotated[Employee, Depends(gate.admin)]) -> Policies:
        return Policies(items=[build_policy_view(each) for each in await stores.run(patterns.policies())])

    @router.get(
        "/policies/{policy_id}", operation_id="getPolicy", summary="Get an edition and its ingestion status"
    )
    async def get_policy(
        employee: Annotated[Employee, Depends(gate.admin)], policy_id: PolicyId
    ) -> PolicyView:
        return build_policy_view(await load_policy(stores, parse_policy_id(policy_id)))

    @router.put(
        "/policies/{policy_id}",
        operation_id="replacePolicy",
        summary="Upload the next edition; the current one stays in service until it is ingested",
        status_code=202,
        response_description=STORED,
    )
    async def replace_policy(
        employee: Annotated[Employee, Depends(gate.admin)],
        policy_id: EditionId,
        file: Annotated[PolicyFile, Depends(PolicyFileBody(max_bytes))],
        response: Response,
    ) -> PolicyView:
        document_id = await get_document_id(stores, parse_policy_id(policy_id))
        policy = await replace(stores, document_id, _build_upload(file, employee), max_bytes=max_bytes)
        response.headers["location"] = f"/policies/{policy.id}"
        return build_policy_view(policy)

    return router


def build_policy_admin_routes(gate: Gate) -> APIRouter:
    """Return the routes that roll back and remove an edition, and try a question."""
    router = APIRouter(tags=["policies"])
    stores = gate.stores

    @router.post(
        "/policies/{policy_id}/rollback",
        operation_id="rollBackPolicy",
        summary="Put the previous edition back into service",
    )
    async def roll_back_policy(
        employee: Annotated[Employee, Depends(gate.admin)], policy_id: EditionId
    ) -> PolicyView:
        return build_policy_view(await roll_back(stores, parse_policy_id(policy_id)))

    @router.post(
        "/policies/{policy_id}/rollforward",
        operation_id="rollForwardPolicy",
        summary="Put the next edition back into service, after a rollback",
    )
    async def roll_forward_policy(
        employee: Annotated[Employee, Depends(gate.admin)], policy_id: EditionId
    ) -> PolicyView:
        return build_policy_view(await roll_forward(stores, parse_policy_id(policy_id)))

    @router.delete(
        "/policies/{policy_id}",
        operation_id="removePolicy",
        summary="Remove an edition, its file and its chunks",
        status_code=204,
        response_class=Response,
    )
    async def remove_policy(
        employee: Annotated[Employee, Depends(gate.admin)], policy_id: PolicyId
    ) -> Response:
        await remove(stores, parse_policy_id(policy_id))
        return Response(status_code=204)

    @router.post(
        "/policies/try",
        operation_id="tryQuestion",
        summary="Retrieve the policy passages for a question, with citations",
    )
    async def try_question(
        employee: Annotated[Employee, Depends(gate.admin)],
        body: Annotated[QuestionAsked, Depends(JsonBody(QuestionAsked))],
    ) -> Tried:
        embedding = await asyncio.to_thread(open_embedding, gate.settings)
        found = await retrieve(stores, embedding, body.question)
        passages = [
            Passage(text=each.content_text, similarity=each.similarity, citation=each.citation())
            for each in found.chunks
        ]
        return Tried(confidence=found.confidence, max_similarity=found.max_similarity, passages=passages)

    return router


def parse_policy_id(given: str) -> UUID:
    """Return the UUID of a policy. Raise `NotFound` if it is not one."""
    try:
        return UUID(given)
    except ValueError:
        raise NotFound("There is no policy with this id: GET /policies lists all policies.") from None


def _build_upload(file: PolicyFile, employee: Employee) -> Upload:
    return Upload(file.name, file.content, employee.employee_id, file.rules)


# --- uploaded files -----------------------------------------------------------------------------------------


async def _parse_form(request: Request) -> PolicyFile:
    """Return the form's file and, if sent, its validated rules. Raise `InvalidRequest` without a file."""
    async with request.form(max_files=2, max_fields=4, max_part_size=MAX_RULES_BYTES) as form:
        file, rules = form.get(FILE_FIELD), form.get(RULES_FIELD)
        if not isinstance(file, UploadFile):
            raise InvalidRequest("The form has no file: send one in the field `file`.")
        rules_text = await _read_rules_text(rules)
        return PolicyFile(
            _strip_folders(file.filename or ""),
            await file.read(),
            _parse_rules(rules_text) if rules_text else None,
        )


async def _read_rules_text(field: UploadFile | str | None) -> str:
    """Return the JSON text of the form's rules, sent as a field or as a file; empty if the field is absent.

    Raise `InvalidRequest` for a file that is empty, too large or not UTF-8.
    """
    if not isinstance(field, UploadFile):
        return field or ""
    body = await field.read(MAX_RULES_BYTES + 1)
    if len(body) > MAX_RULES_BYTES:
        raise InvalidRequest(f"The rules are larger than the limit of {MAX_RULES_BYTES} bytes.")
    if not body:
        raise InvalidRequest("The rules file is empty: send the rules, or omit the field.")
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("The rules are not UTF-8 text: send them as JSON.") from None


def _parse_rules(text: str) -> dict[str, Any]:
    """Validate the rules as a `TravelPolicy`; return the JSON as sent, which is how it is stored."""
    TravelPolicy.parse(text)
    rules: dict[str, Any] = json.loads(text)
    return rules


def _strip_folders(name: str) -> str:
    """Return the file name without folders, which some browsers send."""
    return name.replace("\\", "/").rsplit("/", 1)[-1].strip()
