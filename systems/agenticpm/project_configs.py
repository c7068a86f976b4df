"""What a project's `config` may hold: to whom mail goes, what the agent may do, whether mail is read, from where on it speaks.

What is not known is refused with what is: a word that is misspelt would take effect nowhere, and nobody would hear of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from agenticpm.autonomy import ALLOWABLE, ALLOWED_BY_DEFAULT
from agenticpm.thresholds import Thresholds
from holdfast.errors import InvalidRequest

STAKEHOLDERS_MAX: Final = 50


def _address(value: str) -> str:
    if value.count("@") != 1 or not value.isprintable() or any(mark in value for mark in " <>,"):
        raise ValueError(f"{value!r} is no address: give name@host")
    return value


def _allowable(value: str) -> str:
    if value not in ALLOWABLE:
        raise ValueError(f"{value!r} cannot be allowed: {', '.join(ALLOWABLE)} can")
    return value


class ProjectConfig(BaseModel):
    """All of it may be left out."""

    model_config = ConfigDict(extra="forbid", strict=True)

    stakeholders: list[Annotated[str, AfterValidator(_address)]] = Field(
        default_factory=list, max_length=STAKEHOLDERS_MAX, description="Whom overdue risks are mailed to."
    )
    allowed_actions: list[Annotated[str, AfterValidator(_allowable)]] = Field(
        default_factory=lambda: list(ALLOWED_BY_DEFAULT),
        description=f"What the agent may do at `tactical`, of {', '.join(ALLOWABLE)}.",
    )
    mail: bool = Field(default=False, description="Whether the mailbox is read for it.")
    thresholds: dict[str, Any] = Field(
        default_factory=dict, description=f"From where on it speaks: {', '.join(Thresholds.model_fields)}."
    )


def checked_config(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """As it was given, where all of it is known; else InvalidRequest says what is wrong, and what there is."""
    given = dict(config or {})
    _refuse_wrong(ProjectConfig, given, "config")
    _refuse_wrong(Thresholds, given.get("thresholds", {}), "config.thresholds")
    return given


def _refuse_wrong(model: type[BaseModel], given: Any, where: str) -> None:
    try:
        model.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)
        said = "; ".join(_said(each, where) for each in found)
        raise InvalidRequest(
            f"A project cannot have this configuration: {said}. {where} has {', '.join(model.model_fields)}."
        ) from None


def _said(error: Any, where: str) -> str:
    name = ".".join(map(str, (where, *error["loc"])))
    if error["type"] == "extra_forbidden":
        return f"there is no {name}"
    return f"{name}: {error['msg'].removeprefix('Value error, ')}"
