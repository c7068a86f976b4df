"""Shared parts of all HTTP APIs: errors, pagination, authentication, middleware and the server.

A system's routes declare FastAPI routers and take everything else from here; a host passes the routers of a
system to `make_app` and the app to `serve`.

Names are imported on first use, so that a client of an external service does not load the web framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.core.http.addresses import find_free_port
    from holdfast.security.webhooks import sign, verify, verify_shared_secret
    from holdfast.web.app import make_app
    from holdfast.web.bodies import BytesBody, JsonBody
    from holdfast.web.direct_route import DirectRoute
    from holdfast.web.pagination import PageOf, PageRequest, RequestedPage, build_page_request
    from holdfast.web.parameters import build_key_reader, build_signature_header
    from holdfast.web.problems import (
        PROBLEM_JSON,
        Problem,
        build_error_response,
        describe_problem,
    )
    from holdfast.web.server import serve, serve_in_thread
    from holdfast.web.tokens import require_token

__all__ = [
    "PROBLEM_JSON",
    "BytesBody",
    "DirectRoute",
    "JsonBody",
    "PageOf",
    "PageRequest",
    "Problem",
    "RequestedPage",
    "build_error_response",
    "build_key_reader",
    "build_page_request",
    "build_signature_header",
    "describe_problem",
    "find_free_port",
    "make_app",
    "require_token",
    "serve",
    "serve_in_thread",
    "sign",
    "verify",
    "verify_shared_secret",
]

_EXPORTING_MODULES: Final = {
    "holdfast.core.http.addresses": ("find_free_port",),
    "holdfast.security.webhooks": ("sign", "verify", "verify_shared_secret"),
    "holdfast.web.app": ("make_app",),
    "holdfast.web.bodies": ("BytesBody", "JsonBody"),
    "holdfast.web.direct_route": ("DirectRoute",),
    "holdfast.web.pagination": ("PageOf", "PageRequest", "RequestedPage", "build_page_request"),
    "holdfast.web.parameters": ("build_key_reader", "build_signature_header"),
    "holdfast.web.problems": (
        "PROBLEM_JSON",
        "Problem",
        "build_error_response",
        "describe_problem",
    ),
    "holdfast.web.server": ("serve", "serve_in_thread"),
    "holdfast.web.tokens": ("require_token",),
}


# Hidden from the type checker, which would accept every name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import an exported name on first use. Raise `AttributeError` if there is none."""
        for path, names in _EXPORTING_MODULES.items():
            if name in names:
                return getattr(import_module(path), name)
        raise AttributeError(f"module 'holdfast.web' has no attribute {name!r}")
