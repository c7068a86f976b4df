"""What an operator may set of a system by environment variables: whole numbers in a range, and switches.

A number that is out of its range is refused, and not brought into it: whoever sets it means something by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from holdfast.errors import SettingsError

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_WORDS: Final = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


def values_of(
    prefix: str,
    environ: Mapping[str, str],
    *,
    numbers: Mapping[str, tuple[int, int, int]],
    switches: Mapping[str, bool] = NOTHING,
    texts: Mapping[str, str] = NOTHING,
) -> dict[str, Any]:
    """All variables of a system, by the names of its fields: `rate_limit` is `{prefix}RATE_LIMIT`. Of each number the least, the
    default and the most are given, of the others the default."""
    found: dict[str, Any] = {
        name: number_of(f"{prefix}{name.upper()}", between, environ) for name, between in numbers.items()
    }
    found |= {
        name: switch_of(f"{prefix}{name.upper()}", default, environ) for name, default in switches.items()
    }
    return found | {name: environ.get(f"{prefix}{name.upper()}", default) for name, default in texts.items()}


def number_of(variable: str, between: tuple[int, int, int], environ: Mapping[str, str]) -> int:
    """`between` is the least, the default and the most."""
    least, default, most = between
    text = environ.get(variable, str(default))
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise SettingsError(f"{variable} = {text!r} cannot be: give a whole number from {least} to {most}.")
    return int(text)


def switch_of(variable: str, default: bool, environ: Mapping[str, str]) -> bool:
    text = environ.get(variable)
    if text is None:
        return default
    if text.lower() not in _WORDS:
        raise SettingsError(f"{variable} = {text!r} cannot be: write on or off.")
    return _WORDS[text.lower()]
