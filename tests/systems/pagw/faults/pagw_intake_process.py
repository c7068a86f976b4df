"""Process that takes in one request, and kills itself at a crash point (`test_pagw_intake_killed.py`)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from holdfast import open_stores
from holdfast.core.errors import IdempotencyMismatch, InProgress
from holdfast_demo.pagw.sample.bundles import build_request_bundle
from pagw.model.lookup import RequestLookup
from pagw.settings import PagwSettings
from pagw.system import SYSTEM
from pagw.workers.intake import Intake, Submission
from tests.faults.kill_points import add_kill_points
from tests.systems.pagw.faults.pagw_crash_points import parse


@dataclass(frozen=True)
class Order:
    """One request under an idempotency key of the tenant `acme`; `codes` are its procedure codes."""

    key: str
    codes: tuple[str, ...] = ("99213",)
    crash_point: str = ""

    @property
    def body(self) -> bytes:
        """The request's bundle as JSON."""
        return json.dumps(build_request_bundle(reference=f"R-{self.key}", items=self.codes)).encode()


async def main(order: Order) -> None:
    """Take the request in and print the result, a line of JSON."""
    os.write(1, json.dumps(await _take_in(order)).encode() + b"\n")


async def _take_in(order: Order) -> dict[str, Any]:
    """Accept the request as the API does. Return its id, or why it was refused."""
    async with open_stores(SYSTEM) as stores:
        own = add_kill_points(stores, parse(order.crash_point).run).for_component("api")
        try:
            accepted = await Intake(own, PagwSettings(), RequestLookup.open()).accept(
                Submission("acme", order.key, order.body)
            )
        except InProgress as error:
            return {"refused": "InProgress", "retry_after_s": error.retry_after_s}
        except IdempotencyMismatch:
            return {"refused": "IdempotencyMismatch"}
        return {"id": accepted.pagw_id, "replayed": accepted.replayed}
