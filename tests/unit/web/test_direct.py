"""Routes of signed components: they go past the framework, and are the same routes to whoever calls them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from holdfast.core.errors import CallerRefused, DeclarationError, NotFound, SecretMissing, StoreBusy
from holdfast.web import make_app
from tests.unit.web.calling import call, problem_in


class Event(BaseModel):
    name: str


def doors() -> APIRouter:
    router = APIRouter(prefix="/hooks")

    @router.post("/{sender}", summary="Take an event in", response_model=Event)
    async def take(request: Request) -> Response:
        event = Event.model_validate_json(await request.body())
        return JSONResponse({"name": event.name, "sender": request.path_params["sender"]})

    @router.get("/numbers/{number:int}")
    async def number(request: Request) -> Response:
        return JSONResponse(request.path_params["number"] + 1)

    return router


def app_of(router: APIRouter, **options: Any) -> FastAPI:
    return make_app("Doors", "1", (), signed=[router], **options)


def failing(error: Exception) -> FastAPI:
    router = APIRouter()

    @router.get("/fails")
    async def fails(request: Request) -> Response:
        raise error

    return app_of(router)


def test_an_endpoint_finds_body_and_path_in_the_request() -> None:
    answer = call(app_of(doors()), "POST", "/hooks/shop", json={"name": "paid"})

    assert (answer.status_code, answer.json()) == (200, {"name": "paid", "sender": "shop"})


def test_a_path_that_declares_a_number_gives_one() -> None:
    assert call(app_of(doors()), "GET", "/hooks/numbers/41").json() == 42


def test_it_does_not_go_through_the_frameworks_layers() -> None:
    app, watching = app_of(doors()), Watching()
    app.router.routes.insert(0, watching)

    call(app, "POST", "/hooks/shop", json={"name": "paid"})
    assert watching.seen == []
    call(app, "GET", "/health")
    assert watching.seen == ["/health"]


def test_no_token_is_asked_of_callers_that_sign_and_the_rest_stays_guarded() -> None:
    app = make_app("Doors", "1", [seats()], signed=[doors()], token="t0ken")

    assert call(app, "POST", "/hooks/shop", json={"name": "paid"}).status_code == 200
    assert call(app, "GET", "/seats").status_code == 401


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (CallerRefused("SignatureMissing", "It is not signed."), 401),
        (SecretMissing("There is no secret 'shop'."), 503),
        (NotFound("There is no such sender."), 404),
        (StoreBusy("busy"), 503),
        (HTTPException(418, "no tea"), 418),
        (ExceptionGroup("gathered", [NotFound("x"), StoreBusy("y")]), 503),
        (ZeroDivisionError(), 500),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_it_raises_is_the_same_problem_as_anywhere(error: Exception, status: int) -> None:
    assert problem_in(call(failing(error), "GET", "/fails"))["status"] == status


def test_a_body_that_is_not_what_it_takes_is_refused_with_the_place() -> None:
    answer = call(app_of(doors()), "POST", "/hooks/shop", json={"title": "paid"})

    assert answer.status_code == 400
    assert [fault["pointer"] for fault in problem_in(answer)["errors"]] == ["/name"]


def test_another_method_is_told_which_is_taken() -> None:
    answer = call(app_of(doors()), "DELETE", "/hooks/shop")

    assert problem_in(answer)["status"] == 405
    assert answer.headers["allow"] == "POST"


def test_another_path_is_told_where_the_known_ones_are() -> None:
    assert "/openapi.json lists" in problem_in(call(app_of(doors()), "POST", "/hooks/shop/more"))["detail"]


def test_a_body_that_is_or_becomes_too_large_is_refused() -> None:
    app = app_of(doors(), body_bytes_max=8)

    assert problem_in(call(app, "POST", "/hooks/shop", content=b"123456789"))["status"] == 413
    assert problem_in(call(app, "POST", "/hooks/shop", content=in_pieces()))["status"] == 413


def test_the_description_lists_it_with_what_it_answers() -> None:
    description = call(app_of(doors()), "GET", "/openapi.json").json()

    operation = description["paths"]["/hooks/{sender}"]["post"]
    assert operation["summary"] == "Take an event in"
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/Event"}
    assert {"4XX", "5XX"} <= operation["responses"].keys()


def test_an_answer_that_is_no_response_is_told_to_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    router = APIRouter()

    @router.get("/plain", response_model=None)
    async def plain(request: Request) -> dict[str, int]:
        return {"a": 1}

    assert problem_in(call(app_of(router), "GET", "/plain"))["status"] == 500
    assert "gave a dict: give a response" in caplog.records[0].getMessage()


# --- what would be left undone ------------------------------------------------------------------------------


async def with_path(request: Request, sender: str) -> Response:
    return Response()


async def with_body(request: Request, event: Event) -> Response:
    return Response()


async def with_header(request: Request, signature: Annotated[str, Header()]) -> Response:
    return Response()


async def without_anything() -> Response:
    return Response()


def in_a_thread(request: Request) -> Response:
    return Response()


@pytest.mark.parametrize("endpoint", [with_path, with_body, with_header, without_anything, in_a_thread])
def test_an_endpoint_that_takes_more_or_less_than_the_request_is_refused(
    endpoint: Callable[..., Any],
) -> None:
    router = APIRouter()
    router.post("/hooks/{sender}")(endpoint)

    with pytest.raises(DeclarationError, match=r"/hooks/\{sender\} is a route of a signed component"):
        app_of(router)


def test_a_dependency_that_would_not_be_asked_is_refused() -> None:
    router = APIRouter(dependencies=[Depends(without_anything)])

    @router.post("/hooks")
    async def take(request: Request) -> Response:
        return Response()

    with pytest.raises(DeclarationError, match="without dependencies"):
        app_of(router)


# --- around it ----------------------------------------------------------------------------------------------


class Watching(BaseRoute):
    """Sees every request that reaches the framework's router, and takes none."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        self.seen.append(scope["path"])
        return Match.NONE, {}


def seats() -> APIRouter:
    router = APIRouter()

    @router.get("/seats")
    async def listed() -> list[str]:
        return ["7A"]

    return router


async def in_pieces() -> AsyncIterator[bytes]:
    for piece in (b"1234", b"56789"):
        await asyncio.sleep(0)
        yield piece
