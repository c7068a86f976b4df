"""Imports of packages that an extra brings: the error names the extra."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.core.distribution import explain_missing, format_install_command


@pytest.mark.parametrize(
    ("statement", "module", "missing", "extra"),
    [
        ("import holdfast.mcp", "holdfast.mcp.resources", "mcp_types", "mcp"),
        ("from holdfast.web import make_app", "holdfast.web.direct_route", "fastapi", "api"),
        ("from holdfast.web import PageOf", "holdfast.web.pagination", "fastapi", "api"),
        ("from holdfast.web import serve", "holdfast.web.server", "uvicorn", "api"),
        ("import holdfast.web.tokens", "holdfast.web.tokens", "fastapi", "api"),
        ("import holdfast.web.sandbox_faults", "holdfast.web.bodies", "starlette", "api"),
        ("import holdfast.web.sandbox_keys", "holdfast.web.bodies", "starlette", "api"),
        ("import holdfast.web.external_client", "holdfast.web.external_client", "httpx2", "http"),
        ("import holdfast.web.webhook_targets", "holdfast.web.webhook_targets", "httpx2", "http"),
        ("import holdfast.security.tokens", "holdfast.security.issuer_requests", "httpx2", "tokens"),
        ("import holdfast.wire.http.server", "holdfast.wire.http.server", "uvicorn", "serve"),
    ],
)
def test_import_without_its_extra_names_the_extra(
    statement: str, module: str, missing: str, extra: str
) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; {statement}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: {module} needs {missing}, which is not installed. "
        f"Run {format_install_command(extra)}"
    )


def test_other_errors_of_an_import_stay_as_they_are() -> None:
    with pytest.raises(ImportError, match="cannot import name 'nothing'"), explain_missing("shop", "api"):
        from sys import nothing  # type: ignore[attr-defined]  # noqa: F401
