"""With a token, nothing but health and the description is told to those who do not have it."""

from __future__ import annotations

import pytest
from fastapi import APIRouter, FastAPI

from holdfast.core.errors import SettingsError
from tests.unit.web.calling import app_of, call, problem_in

TOKEN = "s3cret-and-long=="


def guarded() -> FastAPI:
    router = APIRouter()

    @router.get("/seats")
    async def seats() -> list[str]:
        return ["7A"]

    return app_of(router, token=TOKEN, metrics=lambda: "")


@pytest.mark.parametrize("path", ["/seats", "/metrics"])
def test_the_token_opens_every_route(path: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}

    assert call(guarded(), "GET", path, headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/seats", "/metrics"])
@pytest.mark.parametrize(
    ("headers", "challenge"),
    [
        ({}, "Bearer"),
        ({"Authorization": "Basic czNjcmV0"}, "Bearer"),
        ({"Authorization": "Bearer s3cret"}, 'Bearer error="invalid_token"'),
        ({"Authorization": "Bearer schl\u00fcssel"}, 'Bearer error="invalid_token"'),
        ({"Authorization": "Bearer "}, None),
    ],
)
def test_whoever_has_no_token_or_another_is_refused(
    path: str, headers: dict[str, str], challenge: str | None
) -> None:
    answer = call(guarded(), "GET", path, headers=headers)

    assert problem_in(answer)["status"] == 401
    assert challenge is None or answer.headers["www-authenticate"] == challenge


def test_health_and_the_description_need_no_token() -> None:
    assert call(guarded(), "GET", "/health").status_code == 200
    assert call(guarded(), "GET", "/openapi.json").json()["paths"]["/seats"]["get"]["security"]


@pytest.mark.parametrize("token", ["", "  ", "two words", "schlüssel", "line\n"])
def test_a_token_that_nobody_could_send_is_refused(token: str) -> None:
    with pytest.raises(
        SettingsError, match=r"Invalid token: expected letters, digits and - \. _ ~ \+ /\. Make one"
    ):
        app_of(token=token)
