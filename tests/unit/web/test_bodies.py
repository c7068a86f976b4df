"""Bodies as dependencies: read after the caller, within limits of size and time, described in OpenAPI."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator
from typing import Annotated

import pytest
from fastapi import APIRouter, Depends, FastAPI
from pydantic import BaseModel, Field
from starlette.requests import Request

from holdfast.core.errors import TokenRefused
from holdfast.web import BytesBody, JsonBody, bodies
from tests.cases import all_cases
from tests.unit.web.app_client import build_app, call, get_problem


class Seat(BaseModel):
    row: int = 1
    letters: list[str] = Field(default_factory=list)


async def require_authorization(request: Request) -> None:
    if "authorization" not in request.headers:
        raise TokenRefused("TokenMissing", "Send a token.")


def build_body_app() -> FastAPI:
    """Build an app with a JSON body, a raw body of one media type, and a raw body that is not described."""
    router = APIRouter()

    @router.post("/seats")
    async def keep(
        _: Annotated[None, Depends(require_authorization)],
        seat: Annotated[Seat, Depends(JsonBody(Seat, max_bytes=50))],
    ) -> int:
        return seat.row

    @router.put("/seats")
    async def replace(
        body: Annotated[bytes, Depends(BytesBody(8, media_types=("text/csv",), model=Seat))],
    ) -> int:
        return len(body)

    @router.patch("/seats")
    async def change(body: Annotated[bytes, Depends(BytesBody(8))]) -> int:
        return len(body)

    return build_app(router)


TOKEN = {"Authorization": "Bearer x"}


def test_json_body_becomes_a_model_and_an_empty_one_its_defaults() -> None:
    app = build_body_app()

    assert call(app, "POST", "/seats", json={"row": 7}, headers=TOKEN).json() == 7
    assert call(app, "POST", "/seats", headers=TOKEN).json() == 1


def test_invalid_json_body_is_400_and_names_the_fields() -> None:
    answer = call(build_body_app(), "POST", "/seats", json={"row": "x"}, headers=TOKEN)

    assert answer.status_code == 400
    assert [each["pointer"] for each in get_problem(answer)["errors"]] == ["/row"]


def test_caller_is_refused_before_the_body_is_read() -> None:
    read: list[bytes] = []

    async def stream() -> AsyncIterator[bytes]:
        for piece in (b"{", b"}"):
            read.append(piece)
            yield piece

    assert call(build_body_app(), "POST", "/seats", content=stream()).status_code == 401
    assert read == []


@pytest.mark.parametrize("size", [9, 1000])
def test_body_over_the_limit_of_its_route_is_413(size: int) -> None:
    async def stream() -> AsyncIterator[bytes]:
        for _ in range(size):
            yield b"x"

    for content in (b"x" * size, stream()):
        answer = call(build_body_app(), "PATCH", "/seats", content=content)
        assert get_problem(answer)["detail"].startswith("The body is larger than the limit of 8 bytes.")
    assert call(build_body_app(), "PATCH", "/seats", content=b"x" * 8).json() == 8


def test_slow_body_is_408_and_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_BODY_S", 0.01)

    async def stream() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    answer = call(build_body_app(), "PATCH", "/seats", content=stream())
    assert (get_problem(answer)["status"], answer.headers["connection"]) == (408, "close")


CSV = {"Content-Type": "text/csv; charset=utf-8"}


def test_other_media_types_and_encodings_are_415() -> None:
    app = build_body_app()

    assert call(app, "PUT", "/seats", content=b"1A", headers=CSV).json() == 2
    for headers in ({}, {"Content-Type": "application/json"}, {**CSV, "Content-Encoding": "br"}):
        assert get_problem(call(app, "PUT", "/seats", content=b"1A", headers=headers))["status"] == 415


@all_cases(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"1A")),
        ("deflate", zlib.compress(b"1A")),
        ("deflate", zlib.compress(b"1A")[2:-4]),
        ("deflate, gzip", gzip.compress(zlib.compress(b"1A"))),
        ("identity", b"1A"),
    ],
)
def test_routes_see_encoded_bodies_decoded(encoding: str, body: bytes) -> None:
    async def stream() -> AsyncIterator[bytes]:
        for byte in body:
            yield bytes([byte])

    headers = {**CSV, "Content-Encoding": encoding}
    for content in (body, stream()):
        assert call(build_body_app(), "PUT", "/seats", content=content, headers=headers).json() == 2


@all_cases(
    ("body", "status"),
    [
        (b"1A", 400),
        (b"", 400),
        (gzip.compress(b"1A")[:-1], 400),
        (gzip.compress(b"1A") + b"1A", 400),
        (gzip.compress(b"") * 60_000, 413),
        (gzip.compress(b"") * 50_000, 400),
        (gzip.compress(bytes(2_000_000)), 413),
        (gzip.compress(b"x" * 9), 413),
    ],
)
def test_damaged_encoded_bodies_are_400_and_bombs_413(body: bytes, status: int) -> None:
    headers = {**CSV, "Content-Encoding": "gzip"}
    assert (
        get_problem(call(build_body_app(), "PUT", "/seats", content=body, headers=headers))["status"]
        == status
    )


def test_encoded_body_is_decoded_after_the_caller_is_known() -> None:
    read: list[bytes] = []

    async def stream() -> AsyncIterator[bytes]:
        read.append(b"")
        yield b""

    answer = call(build_body_app(), "POST", "/seats", content=stream(), headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, read) == (401, [])
    headers = {**TOKEN, "Content-Encoding": "gzip"}
    assert call(build_body_app(), "POST", "/seats", content=gzip.compress(b"{}"), headers=headers).json() == 1


def test_description_has_the_bodies_and_their_models() -> None:
    description = call(build_body_app(), "GET", "/openapi.json").json()

    operations, reference = description["paths"]["/seats"], {"schema": {"$ref": "#/components/schemas/Seat"}}
    assert operations["post"]["requestBody"] == {"required": True, "content": {"application/json": reference}}
    assert operations["put"]["requestBody"]["content"] == {"text/csv": reference}
    assert "requestBody" not in operations["patch"]
    assert set(description["components"]["schemas"]["Seat"]["properties"]) == {"row", "letters"}
