"""The shared API token: without it, clients see only the health and /openapi.json."""

from __future__ import annotations

import pytest
from fastapi import APIRouter, FastAPI

from holdfast.core.errors import SettingsError
from tests.unit.web.app_client import FixedMetrics, build_app, call, get_problem

TOKEN = "s3cret-and-long=="


def build_guarded_app() -> FastAPI:
    """Build an app with one route and metrics, guarded by the token."""
    router = APIRouter()

    @router.get("/seats")
    async def seats() -> list[str]:
        return ["7A"]

    return build_app(router, token=TOKEN, metrics=FixedMetrics())


@pytest.mark.parametrize("path", ["/seats", "/metrics"])
def test_token_grants_access_to_routes_and_metrics(path: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}

    assert call(build_guarded_app(), "GET", path, headers=headers).status_code == 200


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
def test_rejects_a_missing_or_wrong_token(path: str, headers: dict[str, str], challenge: str | None) -> None:
    answer = call(build_guarded_app(), "GET", path, headers=headers)

    assert get_problem(answer)["status"] == 401
    assert challenge is None or answer.headers["www-authenticate"] == challenge


def test_health_and_the_description_need_no_token() -> None:
    for path in ("/health/live", "/health/ready", "/health"):
        assert call(build_guarded_app(), "GET", path).status_code == 200
    assert call(build_guarded_app(), "GET", "/openapi.json").json()["paths"]["/seats"]["get"]["security"]


@pytest.mark.parametrize("token", ["", "  ", "two words", "schlüssel", "line\n"])
def test_rejects_a_token_that_cannot_be_sent(token: str) -> None:
    with pytest.raises(
        SettingsError, match=r"Invalid token: expected letters, digits and - \. _ ~ \+ /\. Make one"
    ):
        build_app(token=token)
