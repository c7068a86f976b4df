"""What the routes of all systems share: one way to fail, to page, to be guarded and to be served.

A system's `routes.py` declares FastAPI routers and takes everything else from here; a host puts the routers
of a system into `make_app` and gives the app to `serve`.
"""

from __future__ import annotations

from holdfast.security.webhooks import sign, verify, verify_shared_secret
from holdfast.web.app import make_app
from holdfast.web.paging import PageAsked, PageOf, Paging
from holdfast.web.problems import PROBLEM_JSON, Problem, problem_of, problem_of_status, problem_response
from holdfast.web.serving import serve, serving
from holdfast.web.tokens import require_token

__all__ = [
    "PROBLEM_JSON",
    "PageAsked",
    "PageOf",
    "Paging",
    "Problem",
    "make_app",
    "problem_of",
    "problem_of_status",
    "problem_response",
    "require_token",
    "serve",
    "serving",
    "sign",
    "verify",
    "verify_shared_secret",
]
