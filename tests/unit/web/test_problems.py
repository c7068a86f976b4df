"""Errors as problem details: clients see what they can act on, and the log has the rest."""

from __future__ import annotations

import json
import logging
from typing import Annotated, Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI, HTTPException, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, BaseModel
from starlette.requests import ClientDisconnect

from holdfast.core import errors
from holdfast.core.errors import HoldfastError
from holdfast.web import serve_in_thread
from holdfast.web.problems import _MAPPINGS, ErrorFormat, set_error_format
from tests.unit.web.app_client import build_app, call, get_problem

SECRET = "the file /data/tables.db of host 10.0.0.7"

REFUSED = [
    (errors.InvalidRequest, 400, "Invalid request"),
    (errors.EmptyKeyValue, 400, "Empty key value"),
    (errors.NotFound, 404, "Not found"),
    (errors.TableNotFound, 404, "Table not found"),
    (errors.AlreadyExists, 409, "Already there"),
    (errors.IdempotencyMismatch, 422, "Idempotency mismatch"),
    (errors.IteratorExpired, 410, "Iterator expired"),
    (errors.ConditionFailed, 409, "Condition failed"),
    (errors.TransactionConflict, 409, "Transaction conflict"),
]
HIDDEN: list[tuple[HoldfastError, int, str]] = [
    (errors.SettingsError(SECRET), 500, "DeclarationError"),
    (errors.StoreFileError(SECRET), 500, "DeclarationError"),
    (errors.ComponentRefused("api", SECRET, []), 500, "ComponentRefused"),
    (errors.RequestRefused("AccessDenied", SECRET), 500, "RequestRefused"),
    (errors.StoreBusy(SECRET), 503, "RetryLater"),
    (errors.StoreFull(SECRET), 503, "RetryLater"),
    (errors.Throttled(SECRET), 429, "Throttled"),
    (errors.OutcomeUnknown(SECRET, safe_to_repeat=False), 504, "OutcomeUnknown"),
    (errors.CircuitOpen(SECRET, retry_after_s=3.0), 503, "RetryLater"),
    (errors.ExternalServiceFailed(SECRET, may_be_done=True), 503, "RetryLater"),
    (errors.AccessRefused("AccessDenied", SECRET), 500, "AccessRefused"),
    (errors.SecretMissing(SECRET), 503, "SecretMissing"),
    (errors.RowsDropped(SECRET), 500, "Defect"),
    (HoldfastError(SECRET), 500, "HoldfastError"),
]


TOKENS: list[tuple[HoldfastError, int, str | None]] = [
    (errors.TokenRefused("TokenMissing", "No token.", challenge="Bearer"), 401, "Bearer"),
    (errors.TokenRefused("TokenExpired", "Old."), 401, 'Bearer error="invalid_token"'),
    (errors.CallerForbidden(["a", "b"]), 403, 'Bearer error="insufficient_scope", scope="a b"'),
    (errors.TokenKeysUnreachable(SECRET, retry_after_s=10), 503, None),
]


def build_failing_app(error: Exception) -> FastAPI:
    """Build an app whose only route raises the error."""
    router = APIRouter()

    @router.get("/fails")
    async def fails() -> None:
        raise error

    return build_app(router)


@pytest.mark.parametrize(("error", "status", "challenge"), TOKENS)
def test_token_errors_have_their_status_and_challenge(
    error: HoldfastError, status: int, challenge: str | None
) -> None:
    answer = call(build_failing_app(error), "GET", "/fails")

    assert (get_problem(answer)["status"], answer.headers.get("www-authenticate")) == (status, challenge)
    assert answer.headers.get("retry-after") == ("10" if status == 503 else None)


@pytest.mark.parametrize(("kind", "status", "title"), REFUSED)
def test_error_of_the_caller_keeps_its_message(kind: type[HoldfastError], status: int, title: str) -> None:
    problem = get_problem(call(build_failing_app(kind("Seat 7A is taken.")), "GET", "/fails"))

    assert problem["status"] == status
    assert problem["type"] == f"urn:holdfast:error:{kind.label}"
    assert problem["title"] == title
    assert problem["detail"] == "Seat 7A is taken."


@pytest.mark.parametrize(("error", "status", "kind"), HIDDEN, ids=lambda value: type(value).__name__)
def test_error_for_the_operator_is_logged_once_and_not_shown(
    error: HoldfastError, status: int, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = call(build_failing_app(error), "GET", "/fails")

    problem = get_problem(answer)
    assert problem["status"] == status
    assert problem["type"] == f"urn:holdfast:error:{kind}"
    assert SECRET not in answer.text
    (record,) = caplog.records
    assert SECRET in record.getMessage()
    assert problem["instance"] in record.getMessage()


def test_every_error_class_has_a_mapping() -> None:
    """Check that every error class is below one with a mapping of its own."""

    def below(kind: type[HoldfastError]) -> list[type[HoldfastError]]:
        return [kind, *(each for child in kind.__subclasses__() for each in below(child))]

    for kind in below(HoldfastError):
        nearest = next(each for each in kind.__mro__ if each in _MAPPINGS)
        assert nearest is not HoldfastError or kind.__base__ in (HoldfastError, Exception), kind


def test_response_includes_the_notes_of_an_error() -> None:
    error = errors.NotFound("There is no flight EY11.")
    error.add_note("Flights are named with four digits: EY0011.")

    assert get_problem(call(build_failing_app(error), "GET", "/fails"))["detail"] == (
        "There is no flight EY11. Flights are named with four digits: EY0011."
    )


@pytest.mark.parametrize(
    ("error", "status", "seconds"),
    [
        (errors.StoreBusy("x"), 503, "1"),
        (errors.Throttled("x"), 429, "1"),
        (errors.SecretMissing("x"), 503, "1"),
        (errors.RateLimited("x", retry_after_s=41.2), 429, "42"),
        (errors.RateLimited("x"), 429, "1"),
        (errors.CircuitOpen("x", retry_after_s=30.0), 503, "30"),
        (errors.ExternalServiceFailed("x", may_be_done=False, retry_after_s=0.2), 503, "1"),
        (errors.InProgress("x", retry_after_s=12.5), 409, "13"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_retryable_error_states_whole_seconds(error: HoldfastError, status: int, seconds: str) -> None:
    answer = call(build_failing_app(error), "GET", "/fails")

    assert get_problem(answer)["status"] == status
    assert answer.headers["retry-after"] == seconds


@pytest.mark.parametrize(
    "error",
    [
        errors.RateLimited(SECRET),
        errors.InProgress(SECRET),
        errors.ExternalServiceRefused("card_declined", SECRET),
    ],
    ids=lambda value: type(value).__name__,
)
def test_guarantee_that_blocks_a_caller_shows_no_key_and_logs_nothing(
    error: HoldfastError, caplog: pytest.LogCaptureFixture
) -> None:
    answer = call(build_failing_app(error), "GET", "/fails")

    assert get_problem(answer)["type"] == f"urn:holdfast:error:{error.label}"
    assert 400 <= answer.status_code < 500
    assert SECRET not in answer.text
    assert caplog.records == []


def test_unauthenticated_caller_gets_the_reason_and_nothing_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answer = call(
        build_failing_app(errors.CallerRefused("SignatureWrong", "It is another's.")), "GET", "/fails"
    )

    problem = get_problem(answer)
    assert (problem["status"], problem["title"]) == (401, "Caller refused")
    assert problem["detail"] == "SignatureWrong: It is another's."
    assert caplog.records == []


def test_unknown_outcome_has_no_retry_after() -> None:
    answer = call(build_failing_app(errors.OutcomeUnknown("x", safe_to_repeat=False)), "GET", "/fails")

    assert "retry-after" not in answer.headers


def test_failed_header_condition_is_412() -> None:
    answer = call(build_failing_app(errors.ConditionFailed()), "GET", "/fails", headers={"If-Match": '"7"'})

    assert get_problem(answer)["status"] == 412


def test_reports_the_gravest_of_several_errors() -> None:
    group = ExceptionGroup(
        "gathered", [errors.NotFound("x"), ExceptionGroup("inner", [errors.StoreBusy("y")])]
    )

    assert get_problem(call(build_failing_app(group), "GET", "/fails"))["status"] == 503


def test_group_with_an_unknown_error_is_unexpected(caplog: pytest.LogCaptureFixture) -> None:
    group = ExceptionGroup("gathered", [errors.NotFound("x"), ZeroDivisionError(SECRET)])

    assert get_problem(call(build_failing_app(group), "GET", "/fails"))["status"] == 500
    assert len(caplog.records) == 1


def test_unexpected_error_is_logged_once_with_its_traceback_and_not_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answer = call(build_failing_app(ZeroDivisionError(SECRET)), "GET", "/fails")

    problem = get_problem(answer)
    assert (problem["status"], problem["type"], problem["title"]) == (
        500,
        "about:blank",
        "Internal Server Error",
    )
    assert SECRET not in answer.text and "Traceback" not in answer.text
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None and record.exc_info[0] is ZeroDivisionError
    assert problem["instance"] in record.getMessage()


def test_failure_within_a_response_is_left_to_the_server() -> None:
    router = APIRouter()

    @router.get("/half")
    async def half() -> StreamingResponse:
        async def pieces() -> Any:
            yield b"a"
            raise ZeroDivisionError

        return StreamingResponse(pieces())

    with pytest.raises(ZeroDivisionError):
        call(build_app(router), "GET", "/half")


def test_response_that_violates_its_model_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    router = APIRouter()

    @router.get("/count")
    async def count() -> int:
        return "many"  # type: ignore[return-value]

    assert get_problem(call(build_app(router), "GET", "/count"))["status"] == 500
    assert len(caplog.records) == 1


# --- invalid requests ---------------------------------------------------------------------------------------


class Passenger(BaseModel):
    name: str
    age: int


class Booking(BaseModel):
    passengers: list[Passenger]


def build_booking_app() -> FastAPI:
    """Build an app with a route that has path, query and body parameters."""
    router = APIRouter()

    @router.post("/flights/{number}/bookings")
    async def book(
        number: int, booking: Booking, weight: Annotated[float, Query(alias="weight/kg", gt=0)]
    ) -> None:
        raise HTTPException(418, "no tea")

    return build_app(router)


def test_points_at_every_invalid_part() -> None:
    answer = call(
        build_booking_app(),
        "POST",
        "/flights/x/bookings?weight/kg=-1",
        json={"passengers": [{"name": SECRET, "age": "old"}]},
    )

    problem = get_problem(answer)
    assert problem["status"] == 422
    assert problem["type"] == "urn:holdfast:error:InvalidParameters"
    assert problem["detail"].startswith("3 parts of the request")
    assert {fault["pointer"]: fault["detail"] for fault in problem["errors"]} == {
        "/path/number": "Input should be a valid integer, unable to parse string as an integer",
        "/query/weight~1kg": "Input should be greater than 0",
        "/body/passengers/0/age": "Input should be a valid integer, unable to parse string as an integer",
    }
    assert SECRET not in answer.text


def test_points_at_the_whole_body_if_it_is_not_json() -> None:
    answer = call(
        build_booking_app(),
        "POST",
        "/flights/1/bookings?weight/kg=1",
        content=b'{"passengers": [',
        headers={"Content-Type": "application/json"},
    )

    assert [fault["pointer"] for fault in get_problem(answer)["errors"]] == ["/body"]


def build_parsing_app() -> FastAPI:
    """Build an app with a route that parses its body itself."""
    router = APIRouter()

    @router.post("/bookings")
    async def book(request: Request) -> int:
        return len(Booking.model_validate_json(await request.body()).passengers)

    return build_app(router)


def test_body_parsed_by_the_route_is_rejected_with_locations_and_no_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "holdfast.web")
    body = json.dumps({"passengers": [{"name": "amal@example.org", "age": SECRET}, {"age": 7}]}).encode()

    answer = call(build_parsing_app(), "POST", "/bookings", content=body)

    problem = get_problem(answer)
    assert (problem["status"], problem["type"]) == (400, "urn:holdfast:error:InvalidBody")
    assert {fault["pointer"]: fault["detail"] for fault in problem["errors"]} == {
        "/passengers/0/age": "Input should be a valid integer, unable to parse string as an integer",
        "/passengers/1/name": "Field required",
    }
    assert SECRET not in answer.text
    (record,) = caplog.records
    assert record.levelno == logging.INFO and record.exc_info is None
    assert record.getMessage().endswith("the body is not a valid Booking (1 int_parsing, 1 missing)")
    assert problem["instance"] in record.getMessage()


def test_body_parsed_by_the_route_that_is_not_json_is_rejected_as_a_whole() -> None:
    answer = call(build_parsing_app(), "POST", "/bookings", content=b"{")

    assert [fault["pointer"] for fault in get_problem(answer)["errors"]] == [""]
    assert answer.status_code == 400


def test_message_of_a_models_validator_is_not_shown() -> None:
    class Ticket(BaseModel):
        number: Annotated[str, AfterValidator(reject)]

    router = APIRouter()

    @router.post("/tickets")
    async def take(request: Request) -> None:
        Ticket.model_validate_json(await request.body())

    answer = call(build_app(router), "POST", "/tickets", json={"number": SECRET})

    assert get_problem(answer)["errors"] == [
        {"pointer": "/number", "detail": "The value breaks a rule for this field."}
    ]


def reject(value: str) -> str:
    raise ValueError(f"{value} is no number")


def test_framework_exception_keeps_its_status_and_message() -> None:
    answer = call(build_booking_app(), "POST", "/flights/1/bookings?weight/kg=1", json={"passengers": []})

    problem = get_problem(answer)
    assert problem["status"] == 418
    assert problem["type"] == "about:blank"
    assert problem["detail"] == "no tea"


def test_unknown_path_says_where_the_known_ones_are() -> None:
    problem = get_problem(call(build_booking_app(), "GET", "/nowhere"))

    assert problem["status"] == 404
    assert problem["detail"] == "/nowhere not found. /openapi.json lists all paths."


def test_unknown_method_lists_the_known_ones() -> None:
    answer = call(build_booking_app(), "DELETE", "/flights/1/bookings")

    problem = get_problem(answer)
    assert problem["status"] == 405
    assert problem["detail"] == "/flights/1/bookings does not accept DELETE: use POST."
    assert answer.headers["allow"] == "POST"


def test_keeps_a_status_without_a_name() -> None:
    assert get_problem(call(build_failing_app(HTTPException(499, "gone")), "GET", "/fails"))["status"] == 499


def test_path_cannot_inject_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    router = APIRouter()

    @router.get("/{name}")
    async def fails(name: str) -> None:
        raise ZeroDivisionError

    call(build_app(router), "GET", "/a%0AERROR%20forged")

    assert "\n" not in caplog.records[0].getMessage()


def test_exception_with_a_success_status_has_no_body() -> None:
    answer = call(build_failing_app(HTTPException(304, headers={"ETag": '"7"'})), "GET", "/fails")

    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", '"7"')


# --- other formats ------------------------------------------------------------------------------------------


class SeatTaken(errors.RequestError, label="SeatTaken"):
    """An error of a system that maps it to another status than the library would."""


PLAIN = ErrorFormat(
    "application/vnd.seats+json",
    lambda report: {"reason": report.problem.detail},
    schema_name="Refusal",
    schemas=lambda: {"Refusal": {"type": "object", "properties": {"reason": {"type": "string"}}}},
    get_status=lambda error: 423 if isinstance(error, SeatTaken) else None,
    invalid_status=400,
    logs_messages=False,
)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NotFound("x"), 404),
        (SeatTaken("x"), 423),
        (HTTPException(418, "x"), 418),
        (ZeroDivisionError(SECRET), 500),
        (ClientDisconnect(), 400),
    ],
    ids=lambda value: type(value).__name__,
)
def test_app_may_have_its_own_error_format(error: Exception, status: int) -> None:
    app = build_failing_app(error)
    set_error_format(app, PLAIN)
    answer = call(app, "GET", "/fails")

    assert (answer.status_code, answer.headers["content-type"]) == (status, PLAIN.media_type)
    assert answer.json().keys() == {"reason"} and SECRET not in answer.text


def test_middleware_and_routing_use_the_apps_format() -> None:
    app = build_app(max_body_bytes=8)
    set_error_format(app, PLAIN)

    answers = [
        call(app, "GET", "/nowhere"),
        call(app, "POST", "/health/live"),
        call(app, "POST", "/health/live", content=b"x" * 9),
    ]
    with serve_in_thread(app) as url:
        answers.append(httpx.get(f"{url}/health/live", headers={"Host": "rebound.example"}))
        answers.append(httpx.get(f"{url}/{'long' * 5000}"))
    assert [each.status_code for each in answers] == [404, 405, 413, 403, 414]
    assert {each.headers["content-type"] for each in answers} == {PLAIN.media_type}


def test_format_sets_the_status_of_invalid_parameters_and_the_description() -> None:
    app = build_booking_app()
    set_error_format(app, PLAIN)

    assert call(app, "POST", "/flights/x/bookings?weight/kg=-1").status_code == 400
    described = call(app, "GET", "/openapi.json").json()
    assert "problem+json" not in str(described) and "422" not in str(described["paths"])
    content = {PLAIN.media_type: {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    operation = described["paths"]["/flights/{number}/bookings"]["post"]
    assert operation["responses"]["4XX"]["content"] == operation["responses"]["5XX"]["content"] == content


def test_private_format_logs_an_unexpected_error_without_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = build_failing_app(ZeroDivisionError(SECRET))
    set_error_format(app, PLAIN)
    call(app, "GET", "/fails")

    (record,) = caplog.records
    assert "ZeroDivisionError" in record.getMessage() and "in fails" in record.getMessage()
    assert SECRET not in caplog.text


def test_log_names_the_route_and_no_values_of_the_path(caplog: pytest.LogCaptureFixture) -> None:
    router = APIRouter()

    @router.get("/seats/{name}")
    async def fails(name: str) -> None:
        raise errors.StoreBusy("busy")

    call(build_app(router), "GET", "/seats/Ambrosine")

    assert "'/seats/{name}'" in caplog.text and "Ambrosine" not in caplog.text
