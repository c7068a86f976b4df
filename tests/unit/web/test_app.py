"""`make_app` in process: OpenAPI description, health, metrics, pagination, body and host limits."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, Request, Response

from holdfast.core.correlation import get_correlation_id
from holdfast.core.errors import StoreUnreachable
from holdfast.core.readiness import Readiness
from holdfast.web import (
    PageOf,
    PageRequest,
    RequestedPage,
    build_key_reader,
    build_page_request,
    build_signature_header,
    describe_problem,
    make_app,
)
from tests.unit.web.app_client import PROBLEM_JSON, FixedMetrics, build_app, call, get_problem

METRICS = '# TYPE reads_total counter\nreads_total{table="seats"} 2.0\n'
SIGNATURE = build_signature_header("x-signature", "The signature.")


def build_seat_router() -> APIRouter:
    """Build three routes on /seats: a paged list, one that reads the raw body, one with a JSON body."""
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


def get_description(app: FastAPI) -> dict[str, Any]:
    answer = call(app, "GET", "/openapi.json")
    assert answer.status_code == 200
    description: dict[str, Any] = answer.json()
    return description


# --- OpenAPI description ------------------------------------------------------------------------------------


def test_the_description_has_title_version_and_paths() -> None:
    description = get_description(build_app(build_seat_router()))

    assert description["info"] == {"title": "Seats", "version": "1.2.3"}
    assert set(description["paths"]) == {"/seats", "/health/live", "/health/ready"}


def test_library_routes_have_fixed_operation_ids() -> None:
    paths = get_description(build_app(metrics=FixedMetrics(METRICS)))["paths"]

    assert paths["/health/live"]["get"]["operationId"] == "live_health_live_get"
    assert paths["/health/ready"]["get"]["operationId"] == "ready_health_ready_get"
    assert paths["/metrics"]["get"]["operationId"] == "metrics_text_metrics_get"


def test_description_lists_problems_wherever_a_route_can_fail() -> None:
    description = get_description(build_app(build_seat_router(), metrics=FixedMetrics(METRICS)))

    reference = {"$ref": "#/components/schemas/Problem"}
    # A store that does not answer is not a problem of the request.
    unready = description["paths"]["/health/ready"]["get"]["responses"].pop("503")
    assert unready["content"] == {"application/json": {"schema": {"$ref": "#/components/schemas/Ready"}}}
    for path in description["paths"].values():
        for operation in path.values():
            failures = {code: each for code, each in operation["responses"].items() if code[0] in "45"}
            assert {"4XX", "5XX"} <= failures.keys()
            assert all(each["content"] == {PROBLEM_JSON: {"schema": reference}} for each in failures.values())
    listed = description["paths"]["/seats"]["get"]["responses"]
    assert {"200", "404", "422"} <= listed.keys()
    assert listed["404"]["description"] == "There is no such flight."


def test_description_contains_every_schema_it_refers_to() -> None:
    description = get_description(build_app(build_seat_router()))

    schemas = description["components"]["schemas"]
    assert {"Problem", "Fault", "PageOf_str_"} <= schemas.keys()
    assert "HTTPValidationError" not in schemas
    assert set(_list_references(description)) <= {f"#/components/schemas/{name}" for name in schemas}


def _list_references(node: object) -> list[str]:
    """Return every `$ref` in the description."""
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [each for value in node.values() for each in _list_references(value)]
    if isinstance(node, list):
        return [each for value in node for each in _list_references(value)]
    return []


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_has_no_page_that_loads_external_scripts(path: str) -> None:
    assert call(build_app(build_seat_router()), "GET", path).status_code == 404


# --- health and metrics -------------------------------------------------------------------------------------


async def fail() -> None:
    raise StoreUnreachable("No connection to postgresql://secret@10.0.0.7/db")


async def succeed() -> None:
    return None


def test_live_touches_no_store() -> None:
    assert call(build_app(readiness=Readiness({"sql": fail})), "GET", "/health/live").json() == {
        "status": "ok"
    }


@pytest.mark.parametrize("path", ["/health/ready", "/health"])
def test_ready_names_the_store_that_fails_and_why_without_its_address(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = call(build_app(readiness=Readiness({"tables": succeed, "sql": fail})), "GET", path)

    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/json")
    assert answer.json() == {
        "status": "unavailable",
        "stores": [
            {"store": "tables", "status": "ok"},
            {"store": "sql", "status": "unavailable", "reason": "StoreUnreachable"},
        ],
    }
    assert "The store sql is not ready: No connection to postgresql" in caplog.text


def test_ready_answers_200_if_every_store_does() -> None:
    answer = call(build_app(readiness=Readiness({"tables": succeed})), "GET", "/health/ready")

    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "stores": [{"store": "tables", "status": "ok"}]}


def test_metrics_without_a_token_are_shown_only_to_this_machine() -> None:
    """Also on an API whose callers authenticate themselves, which may be called from anywhere."""
    app = make_app("Doors", "1", (), self_authenticated=[build_seat_router()], metrics=FixedMetrics(METRICS))

    assert call(app, "GET", "/metrics").text == METRICS
    assert get_problem(call(app, "GET", "/metrics", client="10.0.0.7"))["status"] == 403
    assert get_problem(call(app, "GET", "/metrics", host="api.example"))["status"] == 403
    assert call(app, "GET", "/health/live", client="10.0.0.7", host="api.example").status_code == 200


def test_counts_requests_by_route_template_and_never_by_path() -> None:
    metrics = FixedMetrics()
    app = build_app(build_seat_router(), metrics=metrics, max_body_bytes=8)
    for path in ("/seats?limit=1", "/seats", "/nowhere/ada", "/nowhere/bob"):
        call(app, "GET", path)
    call(app, "PURGE", "/seats")
    call(app, "PUT", "/seats", content=b"123456789")

    assert metrics.requests.count_requests() == {
        ("GET", "/seats", "200"): 2,
        ("GET", "unmatched", "404"): 2,
        ("other", "/seats", "405"): 1,
        ("PUT", "unmatched", "413"): 1,
    }
    counted = {tuple(each.labels.items()): each.buckets[-1] for each in metrics.requests.list_durations()}
    assert counted[("method", "GET"), ("route", "/seats")] == ("+Inf", 2.0)
    assert metrics.requests.in_progress == 0


def test_counts_a_failed_request_once_and_not_as_in_progress() -> None:
    router = APIRouter()

    @router.get("/fails/{id}")
    async def break_down(id: str) -> None:
        raise RuntimeError(id)

    metrics = FixedMetrics()
    call(build_app(router, metrics=metrics), "GET", "/fails/ada")

    assert metrics.requests.count_requests() == {("GET", "/fails/{id}", "500"): 1}
    assert metrics.requests.in_progress == 0


def test_metrics_returns_the_given_text() -> None:
    answer = call(build_app(metrics=FixedMetrics(METRICS)), "GET", "/metrics")

    assert answer.text == METRICS
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_has_no_metrics_route_without_metrics() -> None:
    assert call(build_app(), "GET", "/metrics").status_code == 404


# --- pagination ---------------------------------------------------------------------------------------------


def test_takes_limit_and_cursor_next_to_the_routes_own_parameters() -> None:
    answer = call(build_app(build_seat_router()), "GET", "/seats?limit=1&cursor=abc&row=7")

    assert answer.json() == {"items": ["7A"], "cursor": "abc"}


def test_the_first_page_needs_no_limit_and_no_cursor() -> None:
    """Return the first page without limit and cursor in the query; its cursor is null."""
    assert call(build_app(build_seat_router()), "GET", "/seats").json() == {
        "items": ["1A", "1B"],
        "cursor": None,
    }
    assert PageRequest() == PageRequest(limit=100, cursor=None)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "cursor=", "cursor=" + "c" * 10_001])
def test_rejects_a_page_size_out_of_bounds(query: str) -> None:
    problem = get_problem(call(build_app(build_seat_router()), "GET", f"/seats?{query}"))

    assert problem["status"] == 422
    assert [fault["pointer"] for fault in problem["errors"]] == ["/query/" + query.partition("=")[0]]


# --- middleware ---------------------------------------------------------------------------------------------


async def stream_body(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def test_accepts_a_body_of_the_maximum_size() -> None:
    app = build_app(build_seat_router(), max_body_bytes=8)

    assert call(app, "PUT", "/seats", content=b"12345678").json() == 8
    assert call(app, "PUT", "/seats", content=stream_body(b"1234", b"5678")).json() == 8


def test_rejects_a_body_with_a_too_large_content_length() -> None:
    answer = call(build_app(build_seat_router(), max_body_bytes=8), "PUT", "/seats", content=b"123456789")

    assert "larger than the limit of 8 bytes" in get_problem(answer)["detail"]
    assert answer.status_code == 413


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_rejects_a_streamed_body_that_becomes_too_large(method: str) -> None:
    pieces = stream_body(b'["1234', b'56789"]')
    headers = {"Content-Type": "application/json"}

    answer = call(
        build_app(build_seat_router(), max_body_bytes=8), method, "/seats", content=pieces, headers=headers
    )

    assert get_problem(answer)["status"] == 413


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
def test_rejects_a_json_body_without_its_content_type(headers: dict[str, str]) -> None:
    # A page of another origin may send this without a preflight request.
    answer = call(build_app(build_seat_router()), "POST", "/seats", content=b'["Amal"]', headers=headers)

    assert get_problem(answer)["status"] == 422


TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize("id", [TRACE, "8f14e45f-ceea-467f-a0e6-6d1f6a1d2c3b", "01KKBW6R000000000000000000"])
def test_response_names_the_callers_correlation_id(id: str) -> None:
    answer = call(build_app(build_seat_router()), "GET", "/seats", headers={"X-Correlation-Id": id})

    assert answer.headers["x-correlation-id"] == id


@pytest.mark.parametrize("id", ["", "Ambrosine", f"{TRACE}0", f"{TRACE}\u00e4"])
def test_correlation_id_of_another_form_is_replaced(id: str) -> None:
    for path in ("/seats", "/nowhere"):
        answer = call(build_app(build_seat_router()), "GET", path, headers={"X-Correlation-Id": id})
        assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-correlation-id"])


def test_routes_and_their_failures_run_under_the_correlation_id() -> None:
    router = APIRouter()

    @router.get("/id")
    async def show() -> str | None:
        return get_correlation_id()

    assert call(build_app(router), "GET", "/id", headers={"X-Correlation-Id": TRACE}).json() == TRACE
    assert get_correlation_id() is None


def test_no_cache_stores_a_response_unless_the_route_allows_it() -> None:
    router = build_seat_router()

    @router.get("/plan")
    async def plan(response: Response) -> str:
        response.headers["cache-control"] = "max-age=60"
        return "A B"

    app = build_app(router)
    assert call(app, "GET", "/seats").headers["cache-control"] == "no-store"
    assert call(app, "GET", "/nowhere").headers["cache-control"] == "no-store"
    assert call(app, "GET", "/plan").headers["cache-control"] == "max-age=60"


# --- parameters ---------------------------------------------------------------------------------------------


def build_key_app(*, is_required: bool) -> FastAPI:
    """Build an app with a route that returns its idempotency key."""
    router = APIRouter()
    read_key = Depends(build_key_reader(is_required=is_required))

    @router.post("/seats")
    async def take(key: str | None = read_key) -> str | None:
        return key

    return build_app(router)


def test_idempotency_key_is_a_header() -> None:
    app = build_key_app(is_required=True)

    assert call(app, "POST", "/seats", headers={"X-Idempotency-Key": "a.b:c-1"}).json() == "a.b:c-1"
    for key in ("", "a b", "a/b", "x" * 129):
        problem = get_problem(call(app, "POST", "/seats", headers={"X-Idempotency-Key": key}))
        assert [each["pointer"] for each in problem["errors"]] == ["/header/x-idempotency-key"]
    assert get_problem(call(app, "POST", "/seats"))["errors"][0]["detail"] == "Field required"
    assert call(build_key_app(is_required=False), "POST", "/seats").json() is None


def test_page_limits_may_be_those_of_the_api() -> None:
    router = APIRouter()
    read_page = Depends(build_page_request(2, 3))

    @router.get("/seats")
    async def listed(page: PageRequest = read_page) -> int:
        return page.limit

    app = build_app(router)
    assert [call(app, "GET", f"/seats{query}").json() for query in ("", "?limit=3")] == [2, 3]
    assert call(app, "GET", "/seats?limit=4").status_code == 422


def test_header_of_a_signature_is_described_as_required() -> None:
    router = APIRouter()

    @router.post("/hooks")
    async def take(signature: Annotated[str | None, SIGNATURE] = None) -> str:
        return signature or "none"

    app = build_app(router)
    assert call(app, "POST", "/hooks").json() == "none"
    (described,) = get_description(app)["paths"]["/hooks"]["post"]["parameters"]
    assert described["required"] and "x-required" not in described["schema"]
