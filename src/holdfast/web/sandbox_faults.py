"""Parts of sandboxes: random failures from a seed, their control requests, and the answers to invalid ones.

A sandbox serves an external service's API over real HTTP for tests and demos. Each call draws one fault.

    body = await JsonBody(FaultsBody)(request)      # in a control endpoint
    body = await read_object(request)               # in an endpoint of the service that checks it by itself
    Starlette(routes=[…], exception_handlers=ERROR_HANDLERS)

Both refuse a body that they cannot read, and `ERROR_HANDLERS` answers that with 400.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from random import Random
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, RootModel, ValidationError

from holdfast.core.distribution import explain_missing
from holdfast.core.errors import HoldfastError
from holdfast.web.bodies import JsonBody
from holdfast.web.problems import build_error_response

with explain_missing(__name__, "api"):
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response

__all__ = [
    "ERROR_HANDLERS",
    "TOO_MANY",
    "ControlBody",
    "FaultKind",
    "Faults",
    "FaultsBody",
    "FiniteJson",
    "apply_faults",
    "read_object",
]

FaultKind = Literal["none", "too_many", "failed_before", "failed_after", "silent_after"]
"""How a call of a sandbox fails."""
TOO_MANY: Final = 429
"""The status of a call over the rate limit."""


async def _answer_disconnected(request: Request, error: Exception) -> Response:
    """Return a response that no client reads."""
    return Response(status_code=400)


async def _answer_refusal(request: Request, error: Exception) -> Response:
    """Return the problem detail of a refused request."""
    return build_error_response(request, error)


ERROR_HANDLERS: Final[Mapping[Any, Any]] = {
    # A client that died during its request is not an error of the sandbox.
    ClientDisconnect: _answer_disconnected,
    ValidationError: _answer_refusal,
    HoldfastError: _answer_refusal,
}
"""Exception handlers for a sandbox's app: an invalid body is answered 400, another error by its mapping."""


@dataclass(slots=True)
class Faults:
    """Shares of all calls with an effect; reads are hit by `too_many` and `failed_before` only.

    `failed_after` responds with 500 after the effect happened; `silent_after` does not respond before the
    client's timeout. `calls_max` in `window_s` is the budget of the whole account, 0 for none: beyond it,
    429. Every call waits `slow_s` first.
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
    slow_s: float = 0.0
    _random: Random = field(init=False, repr=False)
    _calls: list[float] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def draw(self, now: float, *, changes: bool) -> FaultKind:
        """Return the fault of this call. `changes`: the call has an effect."""
        if self._is_over_budget(now):
            return "too_many"
        drawn = self._random.random()
        shares: list[tuple[FaultKind, float]] = [
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

    def get_retry_after_s(self, now: float) -> float:
        """Return the seconds to wait: until the oldest call leaves a full window, else the declared time."""
        if not self.calls_max or len(self._calls) < self.calls_max:
            return self.retry_after_s
        return max(self.retry_after_s, self._calls[0] + self.window_s - now)

    def _is_over_budget(self, now: float) -> bool:
        """Count the call in the window. Return True, without counting it, if the window is full."""
        if not self.calls_max:
            return False
        self._calls = [at for at in self._calls if at > now - self.window_s]
        if len(self._calls) >= self.calls_max:
            return True
        self._calls.append(now)
        return False


class ControlBody(BaseModel):
    """The body of a sandbox's control request: no extra fields, no infinite numbers, and errors do not repeat
    its values.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)


def _check_finite(value: JsonValue) -> JsonValue:
    """Return the value. Raise ValueError for NaN and infinite numbers, which no response could repeat."""
    json.dumps(value, allow_nan=False)
    return value


FiniteJson: TypeAlias = Annotated[JsonValue, AfterValidator(_check_finite)]
"""Any JSON value without infinite numbers, for the fields of a sandbox's requests."""


class _JsonObject(RootModel[dict[str, FiniteJson]]):
    """Any JSON object."""

    model_config = ConfigDict(hide_input_in_errors=True)


async def read_object(request: Request) -> dict[str, Any]:
    """Return the body, a JSON object; an empty body counts as `{}`.

    Raise pydantic's `ValidationError` for any other, and `HTTPException` as `JsonBody`.
    """
    return dict((await JsonBody(_JsonObject)(request)).root)


class FaultsBody(ControlBody):
    """The request body for `Faults`. A sandbox adds its own kinds of failure."""

    too_many: float = Field(default=0.0, ge=0, le=1)
    failed_before: float = Field(default=0.0, ge=0, le=1)
    failed_after: float = Field(default=0.0, ge=0, le=1)
    silent_after: float = Field(default=0.0, ge=0, le=1)
    silence_s: float = Field(default=5.0, ge=0, le=600)
    retry_after_s: float = Field(default=1.0, ge=0, le=3600)
    calls_max: int = Field(default=0, ge=0)
    window_s: float = Field(default=30.0, gt=0, le=86_400)
    seed: int = 0
    slow_s: float = Field(default=0.0, ge=0, le=600)

    def to_faults(self) -> Faults:
        return Faults(**self.model_dump(include={each.name for each in fields(Faults) if each.init}))


async def apply_faults(
    faults: Faults, now: float, changes: bool, answer: Callable[[], Awaitable[Response]]
) -> Response:
    """Return the service's response, or the fault that was drawn. `answer` makes the effect and returns the
    response; the faults before it prevent the call.
    """
    if faults.slow_s:
        await asyncio.sleep(faults.slow_s)
    fault = faults.draw(now, changes=changes)
    if fault == "too_many":
        headers = {"retry-after": f"{math.ceil(faults.get_retry_after_s(now))}"}
        return JSONResponse({"error": "too many requests"}, status_code=TOO_MANY, headers=headers)
    if fault == "failed_before":
        return JSONResponse({"error": "failed"}, status_code=503)
    answered = await answer()
    if fault == "silent_after":
        await asyncio.sleep(faults.silence_s)
    return JSONResponse({"error": "failed"}, status_code=500) if fault == "failed_after" else answered
