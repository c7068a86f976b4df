"""A check that the packages of the SQL store are installed; the extra `sql` brings them."""

from __future__ import annotations

import importlib.util

from holdfast.core.distribution import format_install_command
from holdfast.core.errors import SettingsError


def require_packages(*packages: str) -> None:
    """Raise `SettingsError` unless these packages are installed."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"A SQL store needs {' and '.join(missing)}, which this installation does not have: "
            f"{format_install_command('sql')}"
        )
