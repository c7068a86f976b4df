"""What is around the routes of every system: description, health, metrics, the size and the name of a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI, Request

from holdfast.core.errors import StoreClosed
from holdfast.web import PageOf, PageRequest, RequestedPage, describe_problem
from tests.unit.web.calling import PROBLEM_JSON, app_of, call, problem_in

METRICS = '# TYPE reads_total counter\nreads_total{table="seats"} 2.0\n'


def seats() -> APIRouter:
    router = APIRouter()

    @router.get("/seats", responses={404: describe_problem("There is no such flight.")})
    async def listed(page: RequestedPage, row: int = 1) -> PageOf[str]:
        return PageOf(items=[f"{row}A", f"{row}B"][: page.limit], cursor=page.cursor)

    @router.put("/seats")
    async def kept(request: Request) -> int:
        return len(await request.body())

    @router.post("/seats")
    async def taken(names: list[str]) -> int:
        return len(names)

    return router


def described(app: FastAPI) -> dict[str, Any]:
    answer = call(app, "GET", "/openapi.json")
    assert answer.status_code == 200
    description: dict[str, Any] = answer.json()
    return description


# --- the description ----------------------------------------------------------------------------------------


def test_the_description_has_title_version_and_paths() -> None:
    description = described(app_of(seats()))

    assert description["info"] == {"title": "Seats", "version": "1.2.3"}
    assert set(description["paths"]) == {"/seats", "/health"}


def test_the_library_s_own_routes_have_fixed_operation_ids() -> None:
    paths = described(app_of(metrics=lambda: METRICS))["paths"]

    assert paths["/health"]["get"]["operationId"] == "health_health_get"
    assert paths["/metrics"]["get"]["operationId"] == "metrics_text_metrics_get"


def test_the_description_tells_of_problems_wherever_something_can_fail() -> None:
    description = described(app_of(seats(), metrics=lambda: METRICS))

    reference = {"$ref": "#/components/schemas/Problem"}
    for path in description["paths"].values():
        for operation in path.values():
            failures = {code: each for code, each in operation["responses"].items() if code[0] in "45"}
            assert {"4XX", "5XX"} <= failures.keys()
            assert all(each["content"] == {PROBLEM_JSON: {"schema": reference}} for each in failures.values())
    listed = description["paths"]["/seats"]["get"]["responses"]
    assert {"200", "404", "422"} <= listed.keys()
    assert listed["404"]["description"] == "There is no such flight."


def test_every_schema_the_description_refers_to_is_in_it() -> None:
    description = described(app_of(seats()))

    schemas = description["components"]["schemas"]
    assert {"Problem", "Fault", "PageOf_str_"} <= schemas.keys()
    assert "HTTPValidationError" not in schemas
    assert set(_references(description)) <= {f"#/components/schemas/{name}" for name in schemas}


def _references(node: object) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [each for value in node.values() for each in _references(value)]
    if isinstance(node, list):
        return [each for value in node for each in _references(value)]
    return []


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_there_is_no_page_that_loads_scripts_from_elsewhere(path: str) -> None:
    assert call(app_of(seats()), "GET", path).status_code == 404


# --- health and metrics -------------------------------------------------------------------------------------


def test_health_is_ok() -> None:
    assert call(app_of(), "GET", "/health").json() == {"status": "ok"}


def test_health_is_what_the_check_finds() -> None:
    async def check() -> None:
        raise StoreClosed("closed")

    assert problem_in(call(app_of(check=check), "GET", "/health"))["status"] == 503


def test_metrics_are_the_text_that_was_given() -> None:
    answer = call(app_of(metrics=lambda: METRICS), "GET", "/metrics")

    assert answer.text == METRICS
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_without_metrics_there_are_none() -> None:
    assert call(app_of(), "GET", "/metrics").status_code == 404


# --- pages --------------------------------------------------------------------------------------------------


def test_a_page_is_asked_for_by_limit_and_cursor_beside_the_routes_own_parameters() -> None:
    answer = call(app_of(seats()), "GET", "/seats?limit=1&cursor=abc&row=7")

    assert answer.json() == {"items": ["7A"], "cursor": "abc"}


def test_a_first_page_needs_neither_and_the_last_has_no_cursor() -> None:
    assert call(app_of(seats()), "GET", "/seats").json() == {"items": ["1A", "1B"], "cursor": None}
    assert PageRequest() == PageRequest(limit=100, cursor=None)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "cursor=", "cursor=" + "c" * 10_001])
def test_a_page_out_of_bounds_is_refused(query: str) -> None:
    problem = problem_in(call(app_of(seats()), "GET", f"/seats?{query}"))

    assert problem["status"] == 422
    assert [fault["pointer"] for fault in problem["errors"]] == ["/query/" + query.partition("=")[0]]


# --- the doors ----------------------------------------------------------------------------------------------


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def test_a_body_of_the_largest_size_is_taken() -> None:
    app = app_of(seats(), body_bytes_max=8)

    assert call(app, "PUT", "/seats", content=b"12345678").json() == 8
    assert call(app, "PUT", "/seats", content=in_pieces(b"1234", b"5678")).json() == 8


def test_a_body_that_says_it_is_too_large_is_refused() -> None:
    answer = call(app_of(seats(), body_bytes_max=8), "PUT", "/seats", content=b"123456789")

    assert "larger than the limit of 8 bytes" in problem_in(answer)["detail"]
    assert answer.status_code == 413


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_body_that_becomes_too_large_is_refused(method: str) -> None:
    pieces = in_pieces(b'["1234', b'56789"]')
    headers = {"Content-Type": "application/json"}

    answer = call(app_of(seats(), body_bytes_max=8), method, "/seats", content=pieces, headers=headers)

    assert problem_in(answer)["status"] == 413


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
def test_a_json_body_that_does_not_say_so_is_refused(headers: dict[str, str]) -> None:
    # A page of another origin may send such a one without asking first.
    answer = call(app_of(seats()), "POST", "/seats", content=b'["Amal"]', headers=headers)

    assert problem_in(answer)["status"] == 422


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "[::1]:9"])
def test_a_name_of_this_machine_is_answered(host: str) -> None:
    assert call(app_of(), "GET", "/health", host=host).status_code == 200


def test_a_name_of_somebody_else_is_refused_where_no_token_guards() -> None:
    answer = call(app_of(), "GET", "/health", host="rebound.example")

    assert problem_in(answer)["status"] == 403
    assert call(app_of(token="t0ken"), "GET", "/health", host="api.example").status_code == 200
