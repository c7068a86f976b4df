"""Direct routes: FastAPI declares and does not run them, and they behave the same for clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from holdfast.core.errors import CallerRefused, DeclarationError, NotFound, SecretMissing, StoreBusy
from holdfast.web import DirectRoute, make_app
from tests.unit.web.app_client import call, get_problem


class Event(BaseModel):
    name: str


def build_hook_router() -> APIRouter:
    """Build a route that reads its JSON body and path itself, and one with a typed path parameter."""
    router = APIRouter(prefix="/hooks", route_class=DirectRoute)

    @router.post("/{sender}", summary="Take an event in", response_model=Event)
    async def take(request: Request) -> Response:
        event = Event.model_validate_json(await request.body())
        return JSONResponse({"name": event.name, "sender": request.path_params["sender"]})

    @router.get("/numbers/{number:int}")
    async def number(request: Request) -> Response:
        return JSONResponse(request.path_params["number"] + 1)

    return router


def build_app(router: APIRouter, **options: Any) -> FastAPI:
    """Build an app with one signed router."""
    return make_app("Doors", "1", (), self_authenticated=[router], **options)


def build_failing_app(error: Exception) -> FastAPI:
    """Build an app whose direct route raises the error."""
    router = APIRouter(route_class=DirectRoute)

    @router.get("/fails")
    async def fails(request: Request) -> Response:
        raise error

    return build_app(router)


def test_endpoint_reads_body_and_path_from_the_request() -> None:
    answer = call(build_app(build_hook_router()), "POST", "/hooks/shop", json={"name": "paid"})

    assert (answer.status_code, answer.json()) == (200, {"name": "paid", "sender": "shop"})


def test_typed_path_parameter_is_converted() -> None:
    assert call(build_app(build_hook_router()), "GET", "/hooks/numbers/41").json() == 42


def test_framework_does_not_run_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the framework ran the endpoint")

    monkeypatch.setattr("fastapi.routing.solve_dependencies", fail)

    assert call(build_app(build_hook_router()), "GET", "/hooks/numbers/1").json() == 2
    assert call(build_app(build_hook_router()), "GET", "/health/live").status_code == 500


def test_signed_callers_need_no_token_and_other_routes_stay_guarded() -> None:
    app = make_app(
        "Doors", "1", [build_seat_router()], self_authenticated=[build_hook_router()], token="t0ken"
    )

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
def test_errors_are_the_same_problems_as_elsewhere(error: Exception, status: int) -> None:
    assert get_problem(call(build_failing_app(error), "GET", "/fails"))["status"] == status


def test_rejects_an_invalid_body_with_the_location() -> None:
    answer = call(build_app(build_hook_router()), "POST", "/hooks/shop", json={"title": "paid"})

    assert answer.status_code == 400
    assert [fault["pointer"] for fault in get_problem(answer)["errors"]] == ["/name"]


def test_wrong_method_lists_the_allowed_one() -> None:
    answer = call(build_app(build_hook_router()), "DELETE", "/hooks/shop")

    assert get_problem(answer)["status"] == 405
    assert answer.headers["allow"] == "POST"


def test_unknown_path_says_where_the_known_ones_are() -> None:
    assert (
        "/openapi.json lists"
        in get_problem(call(build_app(build_hook_router()), "POST", "/hooks/shop/more"))["detail"]
    )


def test_rejects_a_body_that_is_or_becomes_too_large() -> None:
    app = build_app(build_hook_router(), max_body_bytes=8)

    assert get_problem(call(app, "POST", "/hooks/shop", content=b"123456789"))["status"] == 413
    assert get_problem(call(app, "POST", "/hooks/shop", content=stream_body()))["status"] == 413


def test_description_lists_the_route_with_its_responses() -> None:
    description = call(build_app(build_hook_router()), "GET", "/openapi.json").json()

    operation = description["paths"]["/hooks/{sender}"]["post"]
    assert operation["summary"] == "Take an event in"
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/Event"}
    assert {"4XX", "5XX"} <= operation["responses"].keys()


def test_logs_a_result_that_is_not_a_response(caplog: pytest.LogCaptureFixture) -> None:
    router = APIRouter(route_class=DirectRoute)

    @router.get("/plain", response_model=None)
    async def plain(request: Request) -> dict[str, int]:
        return {"a": 1}

    assert get_problem(call(build_app(router), "GET", "/plain"))["status"] == 500
    assert "returned a dict: return a response" in caplog.records[0].getMessage()


# --- unsupported declarations -------------------------------------------------------------------------------


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
def test_rejects_an_endpoint_with_other_parameters_than_the_request(
    endpoint: Callable[..., Any],
) -> None:
    router = APIRouter(route_class=DirectRoute)

    with pytest.raises(DeclarationError, match=r"/hooks/\{sender\} is a DirectRoute, whose endpoint"):
        router.post("/hooks/{sender}")(endpoint)


def test_rejects_a_dependency_that_would_be_ignored() -> None:
    router = APIRouter(dependencies=[Depends(without_anything)], route_class=DirectRoute)

    async def take(request: Request) -> Response:
        return Response()

    with pytest.raises(DeclarationError, match="without dependencies"):
        router.post("/hooks")(take)


def test_rejects_a_direct_route_behind_a_token_that_it_would_not_check() -> None:
    with pytest.raises(DeclarationError, match="has_own_authentication=True"):
        make_app("Doors", "1", [build_hook_router()], token="t0ken")


# --- helpers ------------------------------------------------------------------------------------------------


def build_seat_router() -> APIRouter:
    router = APIRouter()

    @router.get("/seats")
    async def listed() -> list[str]:
        return ["7A"]

    return router


async def stream_body() -> AsyncIterator[bytes]:
    for piece in (b"1234", b"56789"):
        await asyncio.sleep(0)
        yield piece
