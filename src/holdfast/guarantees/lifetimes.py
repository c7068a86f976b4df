"""`declare_retention`: declares how long a guarantee keeps its records, for the retention report.

The guarantee itself writes the end of such a record, not a `Lifetime`. `__kept_s__` is the longest time that
a record is kept after its last change, or None if that depends on events; `__kept_why__` gives the reason,
`__kept_label__` the name in the report.
"""

from __future__ import annotations

from holdfast.model.entities import Entity


def declare_retention(entity: type[Entity], seconds: float | None, why: str, *, label: str = "") -> None:
    """Declare how long the records of an entity are kept.

    If several guarantees share the entity, the longest time counts, and None is the longest. `label` names
    the entity in the report if that is not the name of its class.
    """
    if "__kept_s__" in entity.__dict__:
        before: float | None = entity.__dict__["__kept_s__"]
        if before is None or (seconds is not None and before >= seconds):
            return
    # `type.__setattr__` because the model's own __setattr__ accepts fields only.
    type.__setattr__(entity, "__kept_s__", seconds)
    type.__setattr__(entity, "__kept_why__", why)
    type.__setattr__(entity, "__kept_label__", label or entity.__name__)
