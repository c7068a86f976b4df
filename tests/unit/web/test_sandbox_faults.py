"""Faults of a sandbox: before the effect, after it, and by a budget of calls."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response

from holdfast.web.sandbox_faults import Faults, FaultsBody, apply_faults


def call(faults: Faults, *, changes: bool = True, now: float = 0.0) -> tuple[Response, int]:
    """Apply the faults to one call. Return the response, and how often the effect happened."""
    done: list[int] = []

    async def answer() -> Response:
        done.append(1)
        return JSONResponse({"fine": True})

    return asyncio.run(apply_faults(faults, now, changes, answer)), len(done)


@pytest.mark.parametrize(
    ("faults", "status", "done"),
    [
        (Faults(), 200, 1),
        (Faults(too_many=1.0), 429, 0),
        (Faults(failed_before=1.0), 503, 0),
        (Faults(failed_after=1.0), 500, 1),
        (Faults(silent_after=1.0, silence_s=0.0), 200, 1),
    ],
)
def test_fails_before_the_effect_or_after_it(faults: Faults, status: int, done: int) -> None:
    answer, happened = call(faults)
    assert (answer.status_code, happened) == (status, done)


def test_a_read_never_fails_after_its_effect() -> None:
    answer, _ = call(Faults(failed_after=1.0, silent_after=1.0), changes=False)
    assert answer.status_code == 200


def test_rate_limit_says_when_the_oldest_call_expires() -> None:
    faults = Faults(calls_max=2, window_s=30)
    assert [call(faults, now=at)[0].status_code for at in (0.0, 10.0)] == [200, 200]
    refused, done = call(faults, now=12.0)
    assert (refused.status_code, refused.headers["retry-after"], done) == (429, "18", 0)
    assert call(faults, now=30.0)[0].status_code == 200


def test_the_same_seed_fails_the_same_calls() -> None:
    def drawn(seed: int) -> list[str]:
        faults = Faults(too_many=0.3, failed_after=0.3, seed=seed)
        return [faults.draw(0.0, changes=True) for _ in range(50)]

    assert drawn(7) == drawn(7)
    assert len(set(drawn(7))) == 3


class ExtendedFaultsBody(FaultsBody):
    copies: int = 1


def test_body_contains_faults_and_fields_of_the_sandbox() -> None:
    body = ExtendedFaultsBody.model_validate(
        {"failed_after": 0.5, "calls_max": 3, "seed": 7, "slow_s": 2, "copies": 4}
    )

    assert repr(body.to_faults()) == repr(Faults(failed_after=0.5, calls_max=3, seed=7, slow_s=2.0))
    assert repr(ExtendedFaultsBody().to_faults()) == repr(Faults())


@pytest.mark.parametrize("body", [{"too_many": 1.5}, {"window_s": 0}, {"patience": 1}])
def test_rejects_a_share_above_one_and_unknown_fields(body: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        FaultsBody.model_validate(body)
