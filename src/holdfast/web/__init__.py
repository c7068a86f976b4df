"""Shared parts of all HTTP APIs: errors, pagination, authentication, middleware and the server.

A system's routes declare FastAPI routers and take everything else from here; a host passes the routers of a
system to `make_app` and the app to `serve`.
"""

from __future__ import annotations

from holdfast.security.webhooks import sign, verify, verify_shared_secret
from holdfast.web.app import make_app
from holdfast.web.pagination import PageOf, PageRequest, RequestedPage
from holdfast.web.problems import (
    PROBLEM_JSON,
    Problem,
    build_problem_response,
    build_status_response,
    describe_problem,
)
from holdfast.web.server import serve, serve_in_thread
from holdfast.web.tokens import require_token

__all__ = [
    "PROBLEM_JSON",
    "PageOf",
    "PageRequest",
    "Problem",
    "RequestedPage",
    "build_problem_response",
    "build_status_response",
    "describe_problem",
    "make_app",
    "require_token",
    "serve",
    "serve_in_thread",
    "sign",
    "verify",
    "verify_shared_secret",
]
