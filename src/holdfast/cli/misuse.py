"""Called wrongly: what the user typed cannot be meant, whatever the machine and the settings are.

A command raises it; `app.py` makes it one line and an exit code of its own, the one that a misspelt option has.
"""

from __future__ import annotations

from holdfast.errors import SettingsError


class CalledWrongly(SettingsError):
    """An option or argument that cannot be read, is not known, or excludes another."""
