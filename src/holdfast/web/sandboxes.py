"""What sandboxes of outside parties share: what goes wrong there, by chance from a seed, how that is told, and a handler that fails so.

A sandbox serves a party's API over real HTTP for tests and demos. Each call draws once, and a call that fails does so
in one way.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

Fault = Literal["none", "too_many", "failed_before", "failed_after", "silent_after"]
TOO_MANY: Final = 429


async def _nobody_hears(request: Request, error: Exception) -> Response:
    return Response(status_code=400)


# For a sandbox's app: whoever died over a request is told nothing, and it is no fault of the sandbox's.
WHO_DIED: Final[Mapping[Any, Any]] = {ClientDisconnect: _nobody_hears}


@dataclass(slots=True)
class Faults:
    """Shares of all calls that change something; reads are hit by `too_many` and `failed_before` alone.

    `failed_after` answers 500 after the effect happened; `silent_after` does not answer within the caller's patience.
    `calls_max` in `window_s` is the budget of the whole account, 0 for none: beyond it, 429.
    """

    too_many: float = 0.0
    failed_before: float = 0.0
    failed_after: float = 0.0
    silent_after: float = 0.0
    silence_s: float = 5.0
    retry_after_s: float = 1.0
    calls_max: int = 0
    window_s: float = 30.0
    seed: int = 0
    _random: random.Random = field(init=False, repr=False)
    _calls: list[float] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def drawn(self, now: float, *, changes: bool) -> Fault:
        """What happens to this call."""
        if self._is_over_budget(now):
            return "too_many"
        drawn = self._random.random()
        shares: list[tuple[Fault, float]] = [
            ("too_many", self.too_many),
            ("failed_before", self.failed_before),
        ]
        if changes:
            shares += [("failed_after", self.failed_after), ("silent_after", self.silent_after)]
        for fault, share in shares:
            if drawn < share:
                return fault
            drawn -= share
        return "none"

    def pause_s(self, now: float) -> float:
        """When to come again: when the oldest call of a full window is forgotten, else after the declared time."""
        if not self.calls_max or len(self._calls) < self.calls_max:
            return self.retry_after_s
        return max(self.retry_after_s, self._calls[0] + self.window_s - now)

    def _is_over_budget(self, now: float) -> bool:
        if not self.calls_max:
            return False
        self._calls = [at for at in self._calls if at > now - self.window_s]
        if len(self._calls) >= self.calls_max:
            return True
        self._calls.append(now)
        return False


class Door(BaseModel):
    """What is told at a door of a sandbox: nothing else, and no error repeats it."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class FaultsTold(Door):
    """Shares of all calls, and counts; `Faults` says what they mean. A sandbox adds what else goes wrong there."""

    too_many: float = Field(default=0.0, ge=0, le=1)
    failed_before: float = Field(default=0.0, ge=0, le=1)
    failed_after: float = Field(default=0.0, ge=0, le=1)
    silent_after: float = Field(default=0.0, ge=0, le=1)
    silence_s: float = Field(default=5.0, ge=0, le=600)
    retry_after_s: float = Field(default=1.0, ge=0, le=3600)
    calls_max: int = Field(default=0, ge=0)
    window_s: float = Field(default=30.0, gt=0, le=86_400)
    seed: int = 0
    # How long the sandbox takes before each answer.
    slow_s: float = Field(default=0.0, ge=0, le=600)

    def faults(self) -> Faults:
        return Faults(**self.model_dump(include={each.name for each in fields(Faults) if each.init}))


async def faulted(
    faults: Faults, now: float, changes: bool, answer: Callable[[], Awaitable[Response]]
) -> Response:
    """A party's answer, or what the faults make of it: before `answer` is called nothing has happened yet."""
    fault = faults.drawn(now, changes=changes)
    if fault == "too_many":
        headers = {"retry-after": f"{math.ceil(faults.pause_s(now))}"}
        return JSONResponse({"error": "too many requests"}, status_code=TOO_MANY, headers=headers)
    if fault == "failed_before":
        return JSONResponse({"error": "failed"}, status_code=503)
    answered = await answer()
    if fault == "silent_after":
        await asyncio.sleep(faults.silence_s)
    return JSONResponse({"error": "failed"}, status_code=500) if fault == "failed_after" else answered
