"""The name under which pip installs the library, for messages that say what to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

DISTRIBUTION: Final = "holdfast-state"


def format_install_command(*extras: str) -> str:
    """Return the command that installs the library with these extras: `pip install 'holdfast-state[sql]'`."""
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'"


@contextmanager
def explain_missing(module: str, extra: str) -> Iterator[None]:
    """Around the imports of an extra's packages by `module`: name the extra if one is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise ModuleNotFoundError(
            f"{module} needs {package}, which is not installed. Run {format_install_command(extra)}",
            name=error.name,
        ) from error
