"""What the explorer keeps while the console runs, and how a request finds it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

from holdfast.console.context import Console
from holdfast.console.explorer.analysis import Analyses
from holdfast.console.explorer.kept_results import KeptResults
from holdfast.console.explorer.runs import Run
from holdfast.core.distribution import explain_missing

with explain_missing(__name__, "console"):
    from fastapi import Depends
    from starlette.requests import Request

__all__ = ["CurrentExplorer", "Explorer", "run_explorer"]


@dataclass(frozen=True, eq=False)
class Explorer:
    """The analyses of all systems, and results that redirects lead to."""

    analyses: Analyses
    results: KeptResults[Run] = field(default_factory=KeptResults)


@asynccontextmanager
async def run_explorer(app: Any) -> AsyncIterator[None]:
    """Open the explorer with the app."""
    console: Console = app.state.console
    app.state.explorer = Explorer(Analyses(console))
    yield


def get_explorer(request: Request) -> Explorer:
    """Return the explorer of a request: a dependency of its routes."""
    state: Any = request.app.state
    return cast(Explorer, state.explorer)


CurrentExplorer = Annotated[Explorer, Depends(get_explorer)]
