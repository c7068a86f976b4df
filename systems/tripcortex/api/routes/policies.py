"""Policy routes, for admins only: upload, list, replace, roll back and remove policies, and try a question.

An upload is accepted (202) and ingested later: its status shows the progress, or why it failed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.errors import InvalidRequest, NotFound
from tripcortex.api.identity import Employee
from tripcortex.api.routes.auth import Gate
from tripcortex.api.routes.openapi import EDITION_ID, FILE_NAME, POLICY_ID, describe
from tripcortex.api.routes.request_params import limit_body, parse_json, read_body
from tripcortex.api.routes.schemas import (
    Passage,
    Policies,
    PolicyView,
    QuestionAsked,
    Tried,
    build_policy_view,
    build_response,
)
from tripcortex.domain.policy_rules.travel_policy import TravelPolicy
from tripcortex.integrations.ai_models import open_embedding
from tripcortex.model.policies import patterns
from tripcortex.policies.ingestion import Upload, load_policy, remove, replace, roll_back, upload
from tripcortex.policies.retrieval import retrieve
from tripcortex.policies.uploads import get_document_id

FORM_MEDIA_TYPE: Final = "multipart/form-data"
FILE_FIELD: Final = "file"
RULES_FIELD: Final = "rules"
MAX_RULES_BYTES: Final = 256 * 1024
# What a form may have in addition to its file.
MAX_FORM_BYTES: Final = MAX_RULES_BYTES + 64 * 1024
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


def build_policy_routes(gate: Gate) -> APIRouter:
    """Return the routes that upload, list, read and replace policies."""
    router = APIRouter(tags=["policies"])
    stores, bytes_max = gate.stores, gate.settings.policy_bytes_max

    @router.post(
        "/policies",
        **describe(
            "uploadPolicy",
            "Upload a policy document (PDF or Markdown)",
            parameters=[FILE_NAME],
            request_body=FILE_CONTENT,
            response=PolicyView,
            status=202,
            descriptions={202: "The file is stored. Read the edition to follow its ingestion."},
        ),
    )
    @gate.authenticated(admins=True)
    async def upload_policy(request: Request, employee: Employee) -> Response:
        policy = await upload(stores, await _parse_upload(request, employee, bytes_max), max_bytes=bytes_max)
        return build_response(build_policy_view(policy), 202, {"location": f"/policies/{policy.id}"})

    @router.get(
        "/policies", **describe("listPolicies", "List all editions of all policies", response=Policies)
    )
    @gate.authenticated(admins=True)
    async def list_policies(request: Request, employee: Employee) -> Response:
        found = await stores.run(patterns.policies())
        return build_response(Policies(items=[build_policy_view(each) for each in found]))

    @router.get(
        "/policies/{policy_id}",
        **describe(
            "getPolicy",
            "Get an edition and its ingestion status",
            parameters=[POLICY_ID],
            response=PolicyView,
        ),
    )
    @gate.authenticated(admins=True)
    async def get_policy(request: Request, employee: Employee) -> Response:
        return build_response(build_policy_view(await load_policy(stores, _parse_policy_id(request))))

    @router.put(
        "/policies/{policy_id}",
        **describe(
            "replacePolicy",
            "Upload the next edition; the current one stays in service until it is ingested",
            parameters=[EDITION_ID, FILE_NAME],
            request_body=FILE_CONTENT,
            response=PolicyView,
            status=202,
            descriptions={202: "The file is stored. Read the edition to follow its ingestion."},
        ),
    )
    @gate.authenticated(admins=True)
    async def replace_policy(request: Request, employee: Employee) -> Response:
        document_id = await get_document_id(stores, _parse_policy_id(request))
        uploaded = await _parse_upload(request, employee, bytes_max)
        policy = await replace(stores, document_id, uploaded, max_bytes=bytes_max)
        return build_response(build_policy_view(policy), 202, {"location": f"/policies/{policy.id}"})

    return router


def build_policy_admin_routes(gate: Gate) -> APIRouter:
    """Return the routes that roll back and remove an edition, and try a question."""
    router = APIRouter(tags=["policies"])
    stores = gate.stores

    @router.post(
        "/policies/{policy_id}/rollback",
        **describe(
            "rollBackPolicy",
            "Put the previous edition back into service",
            parameters=[EDITION_ID],
            response=PolicyView,
        ),
    )
    @gate.authenticated(admins=True)
    async def roll_back_policy(request: Request, employee: Employee) -> Response:
        return build_response(build_policy_view(await roll_back(stores, _parse_policy_id(request))))

    @router.delete(
        "/policies/{policy_id}",
        **describe(
            "removePolicy", "Remove an edition, its file and its chunks", parameters=[POLICY_ID], status=204
        ),
    )
    @gate.authenticated(admins=True)
    async def remove_policy(request: Request, employee: Employee) -> Response:
        await remove(stores, _parse_policy_id(request))
        return Response(status_code=204)

    @router.post(
        "/policies/try",
        **describe(
            "tryQuestion",
            "Retrieve the policy passages for a question, with citations",
            request_body=QuestionAsked,
            response=Tried,
        ),
    )
    @gate.authenticated(admins=True)
    async def try_question(request: Request, employee: Employee) -> Response:
        body = await parse_json(request, QuestionAsked)
        embedding = await asyncio.to_thread(open_embedding, gate.settings)
        found = await retrieve(stores, embedding, body.question)
        passages = [
            Passage(text=each.content_text, similarity=each.similarity, citation=each.citation())
            for each in found.chunks
        ]
        return build_response(
            Tried(confidence=found.confidence, max_similarity=found.max_similarity, passages=passages)
        )

    return router


def _parse_policy_id(request: Request) -> UUID:
    """Return the UUID in the path. Raise `NotFound` if it is not one."""
    try:
        return UUID(request.path_params["policy_id"])
    except ValueError:
        raise NotFound("There is no policy with this id: GET /policies lists all policies.") from None


async def _parse_upload(request: Request, employee: Employee, bytes_max: int) -> Upload:
    """Parse an upload by its content type: a form with a file, or a file's bytes with its name in the query.

    Raise 415 for JSON, a URL-encoded form or no content type, 413 if the body is larger than `bytes_max`.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == FORM_MEDIA_TYPE:
        return await _parse_form(limit_body(request, bytes_max + MAX_FORM_BYTES), employee)
    if media in ("application/json", "application/x-www-form-urlencoded", ""):
        raise HTTPException(
            UNSUPPORTED,
            "Send the file as the body, with its content type and ?fileName=…, or in a form as `file`.",
        )
    name = request.query_params.get("fileName", "")
    return Upload(_strip_folders(name), await read_body(request, bytes_max), employee.employee_id)


async def _parse_form(request: Request, employee: Employee) -> Upload:
    """Return the form's file and, if sent, its validated rules. Raise `InvalidRequest` without a file."""
    async with request.form(max_files=2, max_fields=4, max_part_size=MAX_RULES_BYTES) as form:
        file, rules = form.get(FILE_FIELD), form.get(RULES_FIELD)
        if not isinstance(file, UploadFile):
            raise InvalidRequest("The form has no file: send one in the field `file`.")
        rules_text = await _read_rules_text(rules)
        return Upload(
            _strip_folders(file.filename or ""),
            await file.read(),
            employee.employee_id,
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
