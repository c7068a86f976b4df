"""Helpers: build an app, call it in process, and check that a response is a problem detail."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
from fastapi import APIRouter, FastAPI

from holdfast.core.http.request_counts import RequestCounts
from holdfast.web import make_app

PROBLEM_JSON = "application/problem+json"


class FixedMetrics:
    """Metrics whose text is given; the app counts its requests in `requests`."""

    def __init__(self, text: str = "") -> None:
        self.requests, self._text = RequestCounts(), text

    async def collect(self) -> str:
        return self._text


def build_app(*routers: APIRouter, **options: Any) -> FastAPI:
    return make_app("Seats", "1.2.3", routers, **options)


def call(
    app: FastAPI,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    json: object = None,
    content: bytes | AsyncIterator[bytes] | None = None,
    host: str = "localhost",
    client: str = "127.0.0.1",
) -> httpx.Response:
    """Send one request to the app in process, from the address `client`, and return the response."""

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app, client=(client, 123))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as sender:
            encoded = httpx.Headers(headers, encoding="latin-1")
            return await sender.request(method, path, headers=encoded, json=json, content=content)

    return asyncio.run(send())


def get_problem(answer: httpx.Response) -> dict[str, Any]:
    """Check that the response is a problem, and return it."""
    assert answer.headers["content-type"] == PROBLEM_JSON
    problem: dict[str, Any] = answer.json()
    assert problem.keys() - {"errors"} == {"type", "title", "status", "detail", "instance"}
    assert problem["status"] == answer.status_code
    assert uuid.UUID(problem["instance"]).urn == problem["instance"]
    return problem
