"""A check that obstore is installed, which both objects engines need; the extra `objects` brings it."""

from __future__ import annotations

import importlib.util

from holdfast.core.distribution import format_install_command
from holdfast.core.errors import SettingsError


def require_obstore() -> None:
    """Raise `SettingsError` unless obstore is installed."""
    if importlib.util.find_spec("obstore") is None:
        raise SettingsError(
            "An objects store needs obstore, which is not installed. Run "
            f"{format_install_command('objects')}."
        )
