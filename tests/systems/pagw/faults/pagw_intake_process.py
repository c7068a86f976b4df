"""Intake of requests in forks that kill themselves at a crash point (`test_pagw_intake_killed.py`).

    python -m tests.systems.pagw.faults.pagw_intake_process

Reads orders from standard input, one JSON object per line, and forks for each, so that imports happen once.
Prints a line with the result, if there is one, and a line with the exit code.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from holdfast import open_stores
from holdfast.core.errors import IdempotencyMismatch, InProgress
from holdfast_demo.pagw.sample.bundles import build_request_bundle
from pagw.domain.fhir.claims import parse_claim
from pagw.domain.fhir.parser import parse_bundle
from pagw.domain.fhir.rules.pas_rules import check_request
from pagw.model.lookup import RequestLookup
from pagw.settings import PagwSettings
from pagw.system import SYSTEM
from pagw.workers.intake import Intake, Submission
from tests.systems.pagw.faults.pagw_crash_points import CrashPoint, add_crash_point


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


def main() -> None:
    """Fork for each order on standard input, and print its result and exit code."""
    _warm_up()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run_order(Order(**json.loads(line)))
        _, status = os.waitpid(child, 0)
        _print_json({"exit": os.waitstatus_to_exitcode(status)})


def _warm_up() -> None:
    """Import everything that is loaded lazily, once before the forks."""
    bundle = parse_bundle(Order("warm").body)
    assert check_request(bundle) == [] and parse_claim(bundle).intent == "submit"
    for module in ("sql.postgres", "objects.local", "tables.embedded", "cache.memory"):
        import_module(f"holdfast.stores.{module}")


def _run_order(order: Order) -> None:
    """Take the request in, print the result and end the forked process."""
    try:
        _print_json(asyncio.run(_take_in(order)))
        os._exit(0)
    finally:
        os._exit(1)


async def _take_in(order: Order) -> dict[str, Any]:
    """Accept the request as the API does. Return its id, or why it was refused."""
    async with open_stores(SYSTEM) as stores:
        own = add_crash_point(stores, CrashPoint.parse(order.crash_point)).for_component("api")
        try:
            accepted = await Intake(own, PagwSettings(), RequestLookup.open()).accept(
                Submission("acme", order.key, order.body)
            )
        except InProgress as error:
            return {"refused": "InProgress", "retry_after_s": error.retry_after_s}
        except IdempotencyMismatch:
            return {"refused": "IdempotencyMismatch"}
        return {"id": accepted.pagw_id, "replayed": accepted.replayed}


def _print_json(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
