"""Error responses: every library, framework and unexpected error becomes one OperationOutcome."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from holdfast.core import errors
from holdfast.core.errors import HoldfastError
from holdfast.web import build_error_response
from pagw.api.routes.errors import configure_outcomes
from pagw.domain.attachments import AttachmentRefused
from pagw.domain.fhir.outcomes import FhirRefused, build_error
from pagw.domain.fhir.rules.structure import check_structure
from tests.cases import all_cases

SECRET = "MZQ-4417-0001 Quillfeather"
# Errors that need more than a message to construct.
EXAMPLES: dict[type[HoldfastError], HoldfastError] = {
    each.__class__: each
    for each in (
        errors.SchemaMismatch("pagw", None, SECRET),
        errors.ItemUnreadable("t", {"k": SECRET}, SECRET),
        errors.MessageUnreadable("q", "1", SECRET),
        errors.ObjectDamaged("b", SECRET, SECRET),
        errors.AccessRefused("X", SECRET),
        errors.CallerRefused("SignatureWrong", "The signature is not the payer's."),
        errors.TokenRefused("TokenExpired", "The token is over."),
        errors.WaitTokenRefused("AnswerRefused", "The token is not that of the wait."),
        errors.StateMismatch("It stands elsewhere.", state="chosen"),
        errors.NotWaiting("Nobody waits for it.", state="chosen"),
        errors.DeadlinePassed("The time is over.", state="chosen"),
        errors.NotCancellable("It is too far.", state="chosen"),
        errors.CallerForbidden(["system/Claim.read"]),
        errors.TargetRefused("it is not https"),
        errors.RequestRefused("X", SECRET),
        errors.ExternalServiceRefused("X", SECRET),
        errors.ComponentRefused("api", SECRET, []),
        errors.CrossStoreTransaction([SECRET, "sql"]),
        errors.ObjectHeld("bucket", "202611/key"),
        errors.RowAlreadyExists("There is one already.", constraint="x"),
        errors.TransactionCancelled([]),
        errors.NotPending("It is gone.", state="gone"),
        errors.ExternalServiceFailed(SECRET, may_be_done=True),
        errors.SendIncomplete(SECRET, [1]),
        errors.Throttled(),
        errors.OutcomeUnknown(SECRET, safe_to_repeat=True),
        errors.InProgress(SECRET, retry_after_s=4.2),
        errors.RateLimited(SECRET, retry_after_s=9),
    )
}
STATUSES = {
    errors.TokenRefused: 401,
    errors.CallerForbidden: 403,
    errors.NotFound: 404,
    errors.InProgress: 409,
    errors.ConditionFailed: 409,
    errors.TargetRefused: 422,
    errors.IdempotencyMismatch: 422,
    errors.RateLimited: 429,
    errors.InternalError: 500,
    errors.SettingsError: 500,
    errors.StoreUnreachable: 503,
    errors.CacheUnavailable: 503,
    errors.SecretMissing: 503,
    errors.TokenKeysUnreachable: 503,
}


def list_error_types(of: type[HoldfastError] = HoldfastError) -> list[type[HoldfastError]]:
    """Return the error types of the library. The gateway's own have separate tests."""
    below = [each for each in of.__subclasses__() if each.__module__ == errors.__name__]
    return [of, *(kind for each in below for kind in list_error_types(each))]


def answer(failure: Exception) -> Response:
    """Return the gateway's response to an error raised on `GET /pas/requests`."""
    app = FastAPI()
    configure_outcomes(app)
    scope = {"type": "http", "method": "GET", "path": "/pas/requests", "headers": [], "app": app}
    return build_error_response(Request(scope), failure)


def get_outcome(response: Response) -> dict[str, Any]:
    """Return the response's OperationOutcome, and check its structure."""
    assert response.headers["content-type"] == "application/fhir+json"
    body: dict[str, Any] = json.loads(bytes(response.body))
    assert check_structure(body, "OperationOutcome") == []
    return body


@all_cases("kind", dict.fromkeys(list_error_types()))
def test_every_library_error_becomes_an_outcome_with_its_status(kind: type[HoldfastError]) -> None:
    failure = EXAMPLES.get(kind) or kind("What, why, and what to do next.")
    response = answer(failure)
    body = get_outcome(response)
    assert 400 <= response.status_code < 600
    assert response.status_code == STATUSES.get(kind, response.status_code)
    assert SECRET not in json.dumps(body)
    assert ("retry-after" in response.headers) == (
        response.status_code in (429, 503) or kind is errors.InProgress
    )
    assert ("WWW-Authenticate" in response.headers) == (kind in (errors.TokenRefused, errors.CallerForbidden))


def test_unexpected_error_shows_no_values_to_caller_or_log(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise KeyError(SECRET)
    except KeyError as failure:
        response = answer(failure)
    assert (response.status_code, get_outcome(response)["issue"][0]["code"]) == (500, "exception")
    assert SECRET not in json.dumps(get_outcome(response))
    (logged,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "KeyError" in logged.getMessage() and __name__.rpartition(".")[2] in logged.getMessage()
    assert SECRET not in caplog.text


def test_gateway_refusals_keep_their_issues() -> None:
    several = FhirRefused([build_error("value", "One.", "Claim"), build_error("required", "Two.")], 422)
    assert [each["code"] for each in get_outcome(answer(several))["issue"]] == [
        "value",
        "required",
    ]
    attachment = answer(AttachmentRefused("Bundle.entry[3]", "it is empty", code="value"))
    assert (attachment.status_code, get_outcome(attachment)["issue"][0]["expression"]) == (
        422,
        ["Bundle.entry[3]"],
    )
    assert answer(ClientDisconnect()).status_code == 400


def test_invalid_parameters_are_named_without_their_values() -> None:
    faults = [
        {"type": "missing", "loc": ("header", "x-idempotency-key"), "msg": "Field required", "input": None},
        {
            "type": "less_than",
            "loc": ("query", "limit"),
            "msg": "Input should be less than 9",
            "input": SECRET,
        },
    ]
    response = answer(RequestValidationError(faults))
    assert response.status_code == 400
    assert get_outcome(response)["issue"] == [
        {
            "severity": "error",
            "code": "required",
            "diagnostics": "The header parameter x-idempotency-key is missing.",
        },
        {
            "severity": "error",
            "code": "value",
            "diagnostics": "Invalid limit: input should be less than 9.",
            "expression": ["limit"],
        },
    ]
