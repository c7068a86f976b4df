"""Policies, for admins: uploaded, replaced, rolled back, removed, and asked a question as a booking would ask.

What is uploaded is accepted and read later (202): its row says how far that is, and why it failed where it did.
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

from holdfast.errors import InvalidRequest, NotFound
from tripcortex.knowledge import patterns
from tripcortex.knowledge.ingesting import Upload, known, remove, replace, roll_back, upload
from tripcortex.knowledge.retrieving import retrieve
from tripcortex.knowledge.uploading import document_of
from tripcortex.live.identity import Employee
from tripcortex.models import open_embedding
from tripcortex.routes.asking import body_of, bounded, json_of
from tripcortex.routes.describing import EDITION_ID, FILE_NAME, POLICY_ID, described
from tripcortex.routes.guarding import Gate
from tripcortex.routes.views import (
    Passage,
    Policies,
    PolicyView,
    QuestionAsked,
    Tried,
    answer_of,
    policy_view,
)
from tripcortex.rules.policy import TravelPolicy

FORM: Final = "multipart/form-data"
FILE_FIELD: Final = "file"
RULES_FIELD: Final = "rules"
RULES_BYTES_MAX: Final = 256 * 1024
# What a form may have beside its file.
FORM_BYTES_MAX: Final = RULES_BYTES_MAX + 64 * 1024
UNSUPPORTED: Final = 415
BINARY: Final[Mapping[str, Any]] = {"schema": {"type": "string", "format": "binary"}}
TAKES_FILE: Final[Mapping[str, Any]] = {
    FORM: {
        "schema": {
            "type": "object",
            "required": [FILE_FIELD],
            "properties": {
                FILE_FIELD: {"type": "string", "format": "binary"},
                RULES_FIELD: {
                    "type": "string",
                    "description": "The same policy for programs, as JSON; as a field or as a file.",
                },
            },
        }
    },
    "application/pdf": BINARY,
    "text/markdown": BINARY,
    "application/octet-stream": BINARY,
}


def policy_routes(gate: Gate) -> APIRouter:
    router = APIRouter(tags=["policies"])
    stores, bytes_max = gate.stores, gate.settings.policy_bytes_max

    @router.post(
        "/policies",
        **described(
            "uploadPolicy",
            "Upload a policy document (PDF or Markdown)",
            parameters=[FILE_NAME],
            takes=TAKES_FILE,
            gives=PolicyView,
            status=202,
            told={202: "It is kept, and read next."},
        ),
    )
    @gate.serves(admins=True)
    async def take(request: Request, employee: Employee) -> Response:
        policy = await upload(stores, await _upload(request, employee, bytes_max), bytes_max=bytes_max)
        return answer_of(policy_view(policy), 202, {"location": f"/policies/{policy.id}"})

    @router.get("/policies", **described("listPolicies", "All editions of all policies", gives=Policies))
    @gate.serves(admins=True)
    async def listed(request: Request, employee: Employee) -> Response:
        found = await stores.run(patterns.policies())
        return answer_of(Policies(items=[policy_view(each) for each in found]))

    @router.get(
        "/policies/{policy_id}",
        **described("getPolicy", "How far an edition is read", parameters=[POLICY_ID], gives=PolicyView),
    )
    @gate.serves(admins=True)
    async def one(request: Request, employee: Employee) -> Response:
        return answer_of(policy_view(await known(stores, _policy_id(request))))

    @router.put(
        "/policies/{policy_id}",
        **described(
            "replacePolicy",
            "Upload the next edition; the one that serves goes on until it is read",
            parameters=[EDITION_ID, FILE_NAME],
            takes=TAKES_FILE,
            gives=PolicyView,
            status=202,
            told={202: "It is kept, and read next."},
        ),
    )
    @gate.serves(admins=True)
    async def put(request: Request, employee: Employee) -> Response:
        document_id = await document_of(stores, _policy_id(request))
        given = await _upload(request, employee, bytes_max)
        policy = await replace(stores, document_id, given, bytes_max=bytes_max)
        return answer_of(policy_view(policy), 202, {"location": f"/policies/{policy.id}"})

    return router


def managing_routes(gate: Gate) -> APIRouter:
    router = APIRouter(tags=["policies"])
    stores = gate.stores

    @router.post(
        "/policies/{policy_id}/rollback",
        **described(
            "rollBackPolicy",
            "The edition before the one that serves takes its place",
            parameters=[EDITION_ID],
            gives=PolicyView,
        ),
    )
    @gate.serves(admins=True)
    async def back(request: Request, employee: Employee) -> Response:
        return answer_of(policy_view(await roll_back(stores, _policy_id(request))))

    @router.delete(
        "/policies/{policy_id}",
        **described(
            "removePolicy", "Remove an edition, its file and its chunks", parameters=[POLICY_ID], status=204
        ),
    )
    @gate.serves(admins=True)
    async def gone(request: Request, employee: Employee) -> Response:
        await remove(stores, _policy_id(request))
        return Response(status_code=204)

    @router.post(
        "/policies/try",
        **described(
            "tryQuestion",
            "What a question finds in the policies, with where it stands",
            takes=QuestionAsked,
            gives=Tried,
        ),
    )
    @gate.serves(admins=True)
    async def tried(request: Request, employee: Employee) -> Response:
        asked = await json_of(request, QuestionAsked)
        embedding = await asyncio.to_thread(open_embedding, gate.settings)
        found = await retrieve(stores, embedding, asked.question)
        passages = [
            Passage(text=each.content_text, similarity=each.similarity, citation=each.citation())
            for each in found.chunks
        ]
        return answer_of(
            Tried(confidence=found.confidence, max_similarity=found.max_similarity, passages=passages)
        )

    return router


def _policy_id(request: Request) -> UUID:
    try:
        return UUID(request.path_params["policy_id"])
    except ValueError:
        raise NotFound("There is no policy of this id: GET /policies lists those that are.") from None


async def _upload(request: Request, employee: Employee, bytes_max: int) -> Upload:
    """A form with a file, or the bytes of a file whose name is in the address."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == FORM:
        return await _of_form(bounded(request, bytes_max + FORM_BYTES_MAX), employee)
    if media in ("application/json", "application/x-www-form-urlencoded", ""):
        raise HTTPException(
            UNSUPPORTED,
            "Send the file as it is, with its content type and ?fileName=…, or in a form as `file`.",
        )
    name = request.query_params.get("fileName", "")
    return Upload(_plain_name(name), await body_of(request, bytes_max), employee.employee_id)


async def _of_form(request: Request, employee: Employee) -> Upload:
    async with request.form(max_files=2, max_fields=4, max_part_size=RULES_BYTES_MAX) as form:
        file, rules = form.get(FILE_FIELD), form.get(RULES_FIELD)
        if not isinstance(file, UploadFile):
            raise InvalidRequest("The form has no file: send one in the field `file`.")
        told = await _rules_text(rules)
        return Upload(
            _plain_name(file.filename or ""),
            await file.read(),
            employee.employee_id,
            _rules(told) if told else None,
        )


async def _rules_text(given: UploadFile | str | None) -> str:
    """A field with the JSON in it, or a file that has it."""
    if not isinstance(given, UploadFile):
        return given or ""
    body = await given.read(RULES_BYTES_MAX + 1)
    if len(body) > RULES_BYTES_MAX:
        raise InvalidRequest(f"The rules are more than {RULES_BYTES_MAX} bytes, the most this takes.")
    if not body:
        raise InvalidRequest("The file of the rules is empty: send the rules, or leave them out.")
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("The rules are no text in UTF-8: send them as JSON.") from None


def _rules(text: str) -> dict[str, Any]:
    """What is kept is what was sent, once it is known to be rules."""
    TravelPolicy.read(text)
    told: dict[str, Any] = json.loads(text)
    return told


def _plain_name(name: str) -> str:
    """Without folders: some browsers send those too."""
    return name.replace("\\", "/").rsplit("/", 1)[-1].strip()
