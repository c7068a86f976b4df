"""The scripts and styles of the console. Nothing is loaded from elsewhere.

`static/vendor/` has htmx and uPlot as their projects publish them, each with its licence;
docs/internals/dependencies.md lists them, and a test compares their hashes.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

from holdfast.core.distribution import explain_missing

with explain_missing(__name__, "console"):
    from starlette.responses import Response
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp

FOLDER: Final = Path(__file__).parent / "static"
VERSION_LENGTH: Final = 12
CACHE_CONTROL: Final = "public, max-age=31536000, immutable"


def _hash_assets() -> str:
    """Return a hash of all assets, which changes when any of them does."""
    digest = hashlib.sha256()
    for file in sorted(FOLDER.rglob("*.*")):
        if file.suffix in (".js", ".css", ".svg"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:VERSION_LENGTH]


ASSETS_VERSION: Final = _hash_assets()
"""A part of the address of each asset, so that a browser may keep it."""


class _Assets(StaticFiles):
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """Return the file, which a browser may keep."""
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = CACHE_CONTROL
        return response


def build_assets_app() -> ASGIApp:
    """Build the app that serves the assets."""
    return _Assets(directory=FOLDER)
