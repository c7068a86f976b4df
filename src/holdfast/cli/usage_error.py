"""`UsageError`: what the user typed is invalid, whatever the machine and the settings are.

A command raises it. `app.py` prints it on one line and exits with 2, as it does for an unknown option.
"""

from __future__ import annotations

from holdfast.core.errors import SettingsError


class UsageError(SettingsError, label="CalledWrongly"):
    """An option or argument that is invalid, unknown, or excludes another."""
