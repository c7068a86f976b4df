"""Which extras a command needs. Asked before it starts anything, so that it does not end half way."""

from __future__ import annotations

import importlib.util
from typing import Final, Literal

from holdfast.errors import SettingsError
from holdfast.settings import Settings

Extra = Literal["serve", "aws", "api", "mcp"]

MODULES: Final[dict[Extra, tuple[str, ...]]] = {
    "serve": ("uvicorn", "httptools", "uvloop"),
    "aws": ("boto3",),
    "api": ("fastapi", "uvicorn", "httptools", "uvloop"),
    "mcp": ("mcp",),
}


def require(command: str, *extras: Extra) -> None:
    """Refuse with the one line to install, if anything of these extras is not there."""
    modules = dict.fromkeys(module for extra in extras for module in MODULES[extra])
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise SettingsError(
            f"`holdfast {command}` needs {', '.join(missing)}, which this installation does not have: "
            f"pip install '.[{','.join(extras)}]' in the clone of Holdfast, or make setup"
        )


def engine_extras(settings: Settings) -> tuple[Extra, ...]:
    """What the configured engine needs beside the command."""
    return () if settings.tables_embedded else ("aws",)
