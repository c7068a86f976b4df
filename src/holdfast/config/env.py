"""Read a system's environment variables: integers within bounds, booleans and texts.

A number outside its bounds is refused, not clamped: the operator meant something by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from holdfast.core.errors import SettingsError

__all__ = [
    "read_bool",
    "read_env",
    "read_int",
]

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_BOOLEANS: Final = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


def read_env(
    prefix: str,
    environ: Mapping[str, str],
    *,
    numbers: Mapping[str, tuple[int, int, int]],
    switches: Mapping[str, bool] = NOTHING,
    texts: Mapping[str, str] = NOTHING,
) -> dict[str, Any]:
    """Return all variables of a system by field name: `rate_limit` is read from `{prefix}RATE_LIMIT`.

    A number is declared with its minimum, default and maximum; booleans and texts with their default. Raise
    `SettingsError` for an invalid value.
    """
    found: dict[str, Any] = {
        name: read_int(f"{prefix}{name.upper()}", between, environ) for name, between in numbers.items()
    }
    found |= {
        name: read_bool(f"{prefix}{name.upper()}", default, environ) for name, default in switches.items()
    }
    return found | {name: environ.get(f"{prefix}{name.upper()}", default) for name, default in texts.items()}


def read_int(variable: str, bounds: tuple[int, int, int], environ: Mapping[str, str]) -> int:
    """Return the integer in `variable`. `bounds` are the minimum, the default and the maximum.

    Raise `SettingsError` if it is not an integer within them.
    """
    least, default, most = bounds
    text = environ.get(variable, str(default))
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise SettingsError(f"Invalid {variable}={text!r}: expected an integer from {least} to {most}.")
    return int(text)


def read_bool(variable: str, default: bool, environ: Mapping[str, str]) -> bool:
    """Return the boolean in `variable`, or the default if it is not set. Raise `SettingsError` for another
    text.
    """
    text = environ.get(variable)
    if text is None:
        return default
    if text.lower() not in _BOOLEANS:
        raise SettingsError(f"Invalid {variable}={text!r}: expected on or off.")
    return _BOOLEANS[text.lower()]
