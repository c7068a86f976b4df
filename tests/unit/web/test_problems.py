"""Every failure is answered as a problem detail, with what the caller may know and no more."""

from __future__ import annotations

import json
import logging
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, FastAPI, HTTPException, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, BaseModel

from holdfast.core import errors
from holdfast.core.errors import HoldfastError
from holdfast.web.problems import _MAPPINGS
from tests.unit.web.calling import app_of, call, problem_in

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


def failing(error: Exception) -> FastAPI:
    router = APIRouter()

    @router.get("/fails")
    async def fails() -> None:
        raise error

    return app_of(router)


@pytest.mark.parametrize(("error", "status", "challenge"), TOKENS)
def test_who_is_refused_for_its_token_is_told_what_to_bring(
    error: HoldfastError, status: int, challenge: str | None
) -> None:
    answer = call(failing(error), "GET", "/fails")

    assert (problem_in(answer)["status"], answer.headers.get("www-authenticate")) == (status, challenge)
    assert answer.headers.get("retry-after") == ("10" if status == 503 else None)


@pytest.mark.parametrize(("kind", "status", "title"), REFUSED)
def test_what_the_caller_can_mend_is_told_in_the_errors_own_words(
    kind: type[HoldfastError], status: int, title: str
) -> None:
    problem = problem_in(call(failing(kind("Seat 7A is taken.")), "GET", "/fails"))

    assert problem["status"] == status
    assert problem["type"] == f"urn:holdfast:error:{kind.label}"
    assert problem["title"] == title
    assert problem["detail"] == "Seat 7A is taken."


@pytest.mark.parametrize(("error", "status", "kind"), HIDDEN, ids=lambda value: type(value).__name__)
def test_what_only_the_operator_can_mend_is_logged_once_and_not_told(
    error: HoldfastError, status: int, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = call(failing(error), "GET", "/fails")

    problem = problem_in(answer)
    assert problem["status"] == status
    assert problem["type"] == f"urn:holdfast:error:{kind}"
    assert SECRET not in answer.text
    (record,) = caplog.records
    assert SECRET in record.getMessage()
    assert problem["instance"] in record.getMessage()


def test_every_error_has_an_answer() -> None:
    def below(kind: type[HoldfastError]) -> list[type[HoldfastError]]:
        return [kind, *(each for child in kind.__subclasses__() for each in below(child))]

    for kind in below(HoldfastError):
        nearest = next(each for each in kind.__mro__ if each in _MAPPINGS)
        assert nearest is not HoldfastError or kind.__base__ in (HoldfastError, Exception), kind


def test_the_hint_beside_a_message_is_told_too() -> None:
    error = errors.NotFound("There is no flight EY11.")
    error.add_note("Flights are named with four digits: EY0011.")

    assert problem_in(call(failing(error), "GET", "/fails"))["detail"] == (
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
def test_who_may_try_again_is_told_after_how_many_whole_seconds(
    error: HoldfastError, status: int, seconds: str
) -> None:
    answer = call(failing(error), "GET", "/fails")

    assert problem_in(answer)["status"] == status
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
def test_a_guarantee_that_holds_a_caller_back_shows_no_key_and_bothers_no_operator(
    error: HoldfastError, caplog: pytest.LogCaptureFixture
) -> None:
    answer = call(failing(error), "GET", "/fails")

    assert problem_in(answer)["type"] == f"urn:holdfast:error:{error.label}"
    assert 400 <= answer.status_code < 500
    assert SECRET not in answer.text
    assert caplog.records == []


def test_a_caller_that_does_not_prove_who_it_is_is_told_why_and_nothing_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answer = call(failing(errors.CallerRefused("SignatureWrong", "It is another's.")), "GET", "/fails")

    problem = problem_in(answer)
    assert (problem["status"], problem["title"]) == (401, "Caller refused")
    assert problem["detail"] == "SignatureWrong: It is another's."
    assert caplog.records == []


def test_a_write_that_may_be_done_is_not_offered_for_a_repeat() -> None:
    answer = call(failing(errors.OutcomeUnknown("x", safe_to_repeat=False)), "GET", "/fails")

    assert "retry-after" not in answer.headers


def test_a_condition_of_a_header_that_fails_is_a_failed_precondition() -> None:
    answer = call(failing(errors.ConditionFailed()), "GET", "/fails", headers={"If-Match": '"7"'})

    assert problem_in(answer)["status"] == 412


def test_of_errors_raised_together_the_gravest_is_told() -> None:
    group = ExceptionGroup(
        "gathered", [errors.NotFound("x"), ExceptionGroup("inner", [errors.StoreBusy("y")])]
    )

    assert problem_in(call(failing(group), "GET", "/fails"))["status"] == 503


def test_a_group_with_a_stranger_in_it_is_unexpected(caplog: pytest.LogCaptureFixture) -> None:
    group = ExceptionGroup("gathered", [errors.NotFound("x"), ZeroDivisionError(SECRET)])

    assert problem_in(call(failing(group), "GET", "/fails"))["status"] == 500
    assert len(caplog.records) == 1


def test_the_unexpected_is_logged_once_with_its_trace_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    answer = call(failing(ZeroDivisionError(SECRET)), "GET", "/fails")

    problem = problem_in(answer)
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


def test_a_failure_in_the_middle_of_an_answer_is_left_to_the_server() -> None:
    router = APIRouter()

    @router.get("/half")
    async def half() -> StreamingResponse:
        async def pieces() -> Any:
            yield b"a"
            raise ZeroDivisionError

        return StreamingResponse(pieces())

    with pytest.raises(ZeroDivisionError):
        call(app_of(router), "GET", "/half")


def test_an_answer_of_ours_that_breaks_its_own_model_is_our_failure(caplog: pytest.LogCaptureFixture) -> None:
    router = APIRouter()

    @router.get("/count")
    async def count() -> int:
        return "many"  # type: ignore[return-value]

    assert problem_in(call(app_of(router), "GET", "/count"))["status"] == 500
    assert len(caplog.records) == 1


# --- requests in the wrong shape ----------------------------------------------------------------------------


class Passenger(BaseModel):
    name: str
    age: int


class Booking(BaseModel):
    passengers: list[Passenger]


def booking_app() -> FastAPI:
    router = APIRouter()

    @router.post("/flights/{number}/bookings")
    async def book(
        number: int, booking: Booking, weight: Annotated[float, Query(alias="weight/kg", gt=0)]
    ) -> None:
        raise HTTPException(418, "no tea")

    return app_of(router)


def test_every_part_that_cannot_be_used_is_pointed_at() -> None:
    answer = call(
        booking_app(),
        "POST",
        "/flights/x/bookings?weight/kg=-1",
        json={"passengers": [{"name": SECRET, "age": "old"}]},
    )

    problem = problem_in(answer)
    assert problem["status"] == 422
    assert problem["type"] == "urn:holdfast:error:InvalidParameters"
    assert problem["detail"].startswith("3 parts of the request")
    assert {fault["pointer"]: fault["detail"] for fault in problem["errors"]} == {
        "/path/number": "Input should be a valid integer, unable to parse string as an integer",
        "/query/weight~1kg": "Input should be greater than 0",
        "/body/passengers/0/age": "Input should be a valid integer, unable to parse string as an integer",
    }
    assert SECRET not in answer.text


def test_a_body_that_is_no_json_is_pointed_at_as_a_whole() -> None:
    answer = call(
        booking_app(),
        "POST",
        "/flights/1/bookings?weight/kg=1",
        content=b'{"passengers": [',
        headers={"Content-Type": "application/json"},
    )

    assert [fault["pointer"] for fault in problem_in(answer)["errors"]] == ["/body"]


def taking_apart() -> FastAPI:
    router = APIRouter()

    @router.post("/bookings")
    async def book(request: Request) -> int:
        return len(Booking.model_validate_json(await request.body()).passengers)

    return app_of(router)


def test_a_body_that_a_route_takes_apart_itself_is_refused_with_the_places_and_no_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "holdfast.web")
    body = json.dumps({"passengers": [{"name": "amal@example.org", "age": SECRET}, {"age": 7}]}).encode()

    answer = call(taking_apart(), "POST", "/bookings", content=body)

    problem = problem_in(answer)
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


def test_a_body_that_a_route_takes_apart_and_that_is_no_json_is_refused_as_a_whole() -> None:
    answer = call(taking_apart(), "POST", "/bookings", content=b"{")

    assert [fault["pointer"] for fault in problem_in(answer)["errors"]] == [""]
    assert answer.status_code == 400


def test_what_a_models_own_check_says_of_a_value_is_not_told() -> None:
    class Ticket(BaseModel):
        number: Annotated[str, AfterValidator(refused)]

    router = APIRouter()

    @router.post("/tickets")
    async def take(request: Request) -> None:
        Ticket.model_validate_json(await request.body())

    answer = call(app_of(router), "POST", "/tickets", json={"number": SECRET})

    assert problem_in(answer)["errors"] == [
        {"pointer": "/number", "detail": "It fails a check of its model."}
    ]


def refused(value: str) -> str:
    raise ValueError(f"{value} is no number")


def test_an_exception_of_the_framework_keeps_its_status_and_words() -> None:
    answer = call(booking_app(), "POST", "/flights/1/bookings?weight/kg=1", json={"passengers": []})

    problem = problem_in(answer)
    assert problem["status"] == 418
    assert problem["type"] == "about:blank"
    assert problem["detail"] == "no tea"


def test_an_unknown_path_is_told_where_the_known_ones_are() -> None:
    problem = problem_in(call(booking_app(), "GET", "/nowhere"))

    assert problem["status"] == 404
    assert problem["detail"] == "/nowhere not found. /openapi.json lists all paths."


def test_an_unknown_method_is_told_the_known_ones() -> None:
    answer = call(booking_app(), "DELETE", "/flights/1/bookings")

    problem = problem_in(answer)
    assert problem["status"] == 405
    assert problem["detail"] == "/flights/1/bookings does not accept DELETE: use POST."
    assert answer.headers["allow"] == "POST"


def test_a_status_without_a_name_is_kept() -> None:
    assert problem_in(call(failing(HTTPException(499, "gone")), "GET", "/fails"))["status"] == 499


def test_a_path_cannot_write_lines_of_its_own_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    router = APIRouter()

    @router.get("/{name}")
    async def fails(name: str) -> None:
        raise ZeroDivisionError

    call(app_of(router), "GET", "/a%0AERROR%20forged")

    assert "\n" not in caplog.records[0].getMessage()


def test_an_exception_that_is_no_failure_has_no_body() -> None:
    answer = call(failing(HTTPException(304, headers={"ETag": '"7"'})), "GET", "/fails")

    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", '"7"')
