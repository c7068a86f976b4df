"""Requests taken in, each in a process of its own that ends itself at a given moment: for `test_pagw_intake_killed.py`.

    python -m tests.faults.pagw_intake_process

Reads orders from its standard input, one JSON in a line, and forks for each; so that only the first has to import it all.
Answers with a line of what came of it, if anything did, and one with the exit code.
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
from pagw.demo.sample.bundles import build_request_bundle
from pagw.domain.fhir.claims import parse_claim
from pagw.domain.fhir.parser import parse_bundle
from pagw.domain.fhir.rules.pas_rules import check_request
from pagw.model.lookup import RequestLookup
from pagw.settings import PagwSettings
from pagw.system import SYSTEM
from pagw.workers.intake import Intake, Submission
from tests.faults.pagw_fate import Fate, fated


@dataclass(frozen=True)
class Order:
    """A request under a key of the tenant `acme`; `codes` is what is asked for."""

    key: str
    codes: tuple[str, ...] = ("99213",)
    fate: str = ""

    @property
    def body(self) -> bytes:
        return json.dumps(build_request_bundle(reference=f"R-{self.key}", items=self.codes)).encode()


def main() -> None:
    _warm_up()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _obey(Order(**json.loads(line)))
        _, status = os.waitpid(child, 0)
        _say({"exit": os.waitstatus_to_exitcode(status)})


def _warm_up() -> None:
    """What is imported when it is first wanted, wanted here: once for all."""
    bundle = parse_bundle(Order("warm").body)
    assert check_request(bundle) == [] and parse_claim(bundle).intent == "submit"
    for module in ("sql.postgres", "objects.local", "tables.embedded", "cache.memory"):
        import_module(f"holdfast.stores.{module}")


def _obey(order: Order) -> None:
    try:
        _say(asyncio.run(_taken_in(order)))
        os._exit(0)
    finally:
        os._exit(1)


async def _taken_in(order: Order) -> dict[str, Any]:
    async with open_stores(SYSTEM) as stores:
        own = fated(stores, Fate.of(order.fate)).for_component("api")
        try:
            accepted = await Intake(own, PagwSettings(), RequestLookup.open()).accept(
                Submission("acme", order.key, order.body)
            )
        except InProgress as error:
            return {"refused": "InProgress", "retry_after_s": error.retry_after_s}
        except IdempotencyMismatch:
            return {"refused": "IdempotencyMismatch"}
        return {"id": accepted.pagw_id, "replayed": accepted.replayed}


def _say(what: dict[str, Any]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main()
