"""Which extras a command needs. Asked before it starts anything, so that it does not end half way."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final, Literal

from holdfast.errors import SettingsError
from holdfast.settings import KMS_SCHEMES, S3_SCHEMES, SQLITE_SCHEME, Settings

if TYPE_CHECKING:
    from holdfast.model.system import System

Extra = Literal["serve", "aws", "api", "mcp", "objects"]

MODULES: Final[dict[Extra, tuple[str, ...]]] = {
    "serve": ("uvicorn", "httptools", "uvloop"),
    "aws": ("boto3",),
    "api": ("fastapi", "uvicorn", "httptools", "uvloop"),
    "mcp": ("mcp",),
    "objects": ("obstore", "cryptography"),
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


def engine_extras(settings: Settings, system: System | None = None) -> tuple[Extra, ...]:
    """What the configured engines need beside the command, of the stores that the system uses."""
    at_aws = not settings.tables_embedded
    extras: list[Extra] = []
    if system is not None and system.queues:
        at_aws |= not settings.queues.startswith(SQLITE_SCHEME)
    if system is not None and system.buckets:
        extras.append("objects")
        at_aws |= settings.objects.startswith(S3_SCHEMES) or settings.keys.startswith(KMS_SCHEMES)
    return ("aws", *extras) if at_aws else tuple(extras)
