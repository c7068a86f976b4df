"""Validation of a project's `config`: mail recipients, allowed actions, whether mail is read, thresholds.

Unknown names are refused with a list of the known ones: a misspelt name would silently have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from agenticpm.domain.autonomy import ALLOWABLE, ALLOWED_BY_DEFAULT
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import SignalKind
from holdfast.core.errors import InvalidRequest

MAX_STAKEHOLDERS: Final = 50
MAX_DISMISSED: Final = 500


def _check_address(value: str) -> str:
    """Return the address. Raise ValueError unless it is one address with one @ and no blanks or commas."""
    if value.count("@") != 1 or not value.isprintable() or any(mark in value for mark in " <>,"):
        raise ValueError(f"invalid address {value!r}: expected name@host")
    return value


def _check_allowable(value: str) -> str:
    """Return the action. Raise ValueError if no project may allow it."""
    if value not in ALLOWABLE:
        raise ValueError(f"invalid action {value!r}: expected one of {', '.join(ALLOWABLE)}")
    return value


def _check_signal_key(value: str) -> str:
    """Return the key of a signal. Raise ValueError unless it has a known kind and a subject."""
    kind, _, subject = value.partition(":")
    if kind not in set(SignalKind) or not subject.strip():
        raise ValueError(
            f"invalid signal {value!r:.80}: expected a kind and a subject, such as stale:MCU-142"
        )
    return value


class ProjectConfig(BaseModel):
    """The `config` of a project. Every field is optional."""

    model_config = ConfigDict(extra="forbid", strict=True)

    stakeholders: list[Annotated[str, AfterValidator(_check_address)]] = Field(
        default_factory=list,
        max_length=MAX_STAKEHOLDERS,
        description="Recipients of mails about overdue risks.",
    )
    allowed_actions: list[Annotated[str, AfterValidator(_check_allowable)]] = Field(
        default_factory=lambda: list(ALLOWED_BY_DEFAULT),
        description=f"Actions that the agent may perform at `tactical`: {', '.join(ALLOWABLE)}.",
    )
    mail: bool = Field(default=False, description="Whether the agent reads the mailbox for the project.")
    dismissed_signals: list[Annotated[str, AfterValidator(_check_signal_key)]] = Field(
        default_factory=list,
        max_length=MAX_DISMISSED,
        description="Signals that a person dismissed for good, by kind and subject, such as `stale:MCU-142`.",
    )
    thresholds: dict[str, Any] = Field(
        default_factory=dict, description=f"Thresholds of the signals: {', '.join(Thresholds.model_fields)}."
    )


def validate_config(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the configuration unchanged if it is valid, and `{}` for None.

    Raise InvalidRequest with the error and the known names.
    """
    given = dict(config or {})
    _validate(ProjectConfig, given, "config")
    _validate(Thresholds, given.get("thresholds", {}), "config.thresholds")
    return given


def _validate(model: type[BaseModel], given: Any, where: str) -> None:
    """Raise InvalidRequest if the value does not fit the model. `where` is its path in the message."""
    try:
        model.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)
        reasons = "; ".join(_format_error(each, where) for each in found)
        raise InvalidRequest(
            f"Invalid project configuration: {reasons}. Fields of {where}: {', '.join(model.model_fields)}."
        ) from None


def _format_error(error: Any, where: str) -> str:
    name = ".".join(map(str, (where, *error["loc"])))
    if error["type"] == "extra_forbidden":
        return f"unknown field {name}"
    return f"{name}: {error['msg'].removeprefix('Value error, ')}"
