"""A check that the engines' dependencies are installed; the extra `objects` brings them."""

from __future__ import annotations

import importlib.util

from holdfast.core.errors import SettingsError


def require_obstore() -> None:
    if importlib.util.find_spec("obstore") is None:
        raise SettingsError(
            "An objects store needs obstore, which this installation does not have: pip install '.[objects]' "
            "in the "
            "clone of Holdfast, or make setup"
        )
