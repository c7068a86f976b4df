"""What an operator may set of a system by environment variables: whole numbers in a range, and switches.

A number that is out of its range is refused, and not brought into it: whoever sets it means something by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.errors import SettingsError

_WORDS: Final = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


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
