"""Malformed bodies to every route of every API: no body causes a server error.

A plausible body of each route, with all its members, is changed at a random place. The test prints its seed.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from holdfast.config.settings import Settings
from holdfast.core.rng import make_uuid
from holdfast.model.system import list_system_names, load_system
from holdfast.web import sign
from holdfast_demo.pagw.sample.bundles import build_request_bundle
from tests.faults.odd_requests import ODD_BODIES, change_one_place
from tests.faults.test_api_parameters import (
    Json,
    build_example,
    build_target,
    find_server_errors,
    get_schema,
    resolve,
    settings,
)
from tests.postgres import create_database

__all__ = ["settings"]

SEED = int(os.environ.get("HOLDFAST_SEED", "20261118"))
CHANGES = 500 if os.environ.get("HOLDFAST_SOAK") else 30
# Deeper members of a recursive schema are left out.
MAX_LEVELS = 5
# It reads its body without a schema.
WEBHOOKS = "/webhooks/{sender}"
EVENT = {
    "ticket_id": "t-1",
    "conversation_id": "t-1",
    "message_id": "m-1",
    "channel": "email",
    "created_at": "2026-11-15T12:00:00.000+00:00",
    "trigger": "customer_message",
}


def build_headers(body: bytes) -> dict[str, str]:
    """Return what the routes need besides a token: keys, versions and a signature."""
    return {
        "if-match": '"0"',
        "x-idempotency-key": str(make_uuid()),
        "x-richpanel-signature": sign("secret-of-the-tests", body, time.time()),
    }


def list_bodies(system: str, description: Json) -> Iterator[tuple[str, str, bytes]]:
    """Yield method, target and body of calls with odd and changed bodies."""
    random = Random(SEED)
    print(f"seed {SEED}")  # noqa: T201
    for path, methods in sorted(description["paths"].items()):
        for method, operation in sorted(methods.items()):
            if "requestBody" in operation or path == WEBHOOKS:
                target = build_target(path, operation.get("parameters", ()), None, "")
                valid = build_whole(description, get_schema(operation)) or build_own(system)
                target = WEBHOOKS.format(sender="richpanel") if path == WEBHOOKS else target
                for body in (*ODD_BODIES, *build_changed(valid, random)):
                    yield method, target, body


def build_changed(valid: Any, random: Random) -> Iterator[bytes]:
    """Yield the body, and changed copies of it."""
    yield json.dumps(valid).encode()
    for _ in range(CHANGES):
        changed = copy.deepcopy(valid)
        change_one_place(changed, random)
        yield json.dumps(changed).encode()


def build_own(system: str) -> Any:
    """Return a body of a route whose schema names no members."""
    return build_request_bundle(reference="R-1") if system == "pagw" else EVENT


def build_whole(description: Json, schema: Json, level: int = 0) -> Any:
    """Return a value of a schema with all members, and one element in each list."""
    schema = resolve(description, schema)
    if level > MAX_LEVELS:
        return None
    if schema.get("type") == "array":
        return [build_whole(description, schema.get("items", {}), level + 1)]
    if schema.get("type") == "object":
        members: Mapping[str, Json] = schema.get("properties", {})
        return {name: build_whole(description, each, level + 1) for name, each in members.items()}
    return build_example(schema) if schema else None


@pytest.mark.parametrize("name", list_system_names())
def test_no_body_causes_a_server_error(name: str, settings: Settings) -> None:
    system = load_system(name)
    if system.schemas:
        settings = replace(settings, sql=create_database(*system.schemas))

    def list_calls(description: Json) -> Iterator[tuple[str, str, bytes]]:
        return list_bodies(name, description)

    assert asyncio.run(find_server_errors(system, settings, list_calls, build_headers)) == set()
