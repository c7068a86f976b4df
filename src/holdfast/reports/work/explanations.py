"""Why something happened: the system's own explanation, read as the component that is for such questions."""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import NotFound, SettingsError
from holdfast.model.system import Explanation, System
from holdfast.runtime.stores import Stores

__all__ = ["DEFAULT_COMPONENTS", "choose_component", "explain"]

# Without another choice, the first of these that the system declares.
DEFAULT_COMPONENTS: Final = ("support", "operator", "api")


def choose_component(system: System) -> str | None:
    """Return the component that explains; None if the system declares none of `DEFAULT_COMPONENTS`."""
    declared = [each.name for each in system.components]
    return next((name for name in DEFAULT_COMPONENTS if name in declared), None)


async def explain(stores: Stores, id: str, component: str | None = None) -> Explanation:
    """Return the system's explanation, read as the component, or by default as `choose_component` says.

    Raise `SettingsError` if the system explains nothing, `NotFound` if it knows nothing about the id.
    """
    system = stores.system
    assert system is not None
    if system.admin.why is None:
        raise SettingsError(f"{system.name} has no explanations: its System declares no `why`.")
    reader = component or choose_component(system)
    view = stores if reader is None else stores.for_component(reader)
    explanation = await system.admin.why(view, id)
    if not explanation.lines:
        raise NotFound(f"{system.name} knows nothing about {id!r}.")
    return explanation
