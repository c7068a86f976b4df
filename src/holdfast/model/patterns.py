"""Access patterns: typed functions that return one operation, with an id, a purpose, a rate and an example.

    @pattern("D6", "Find an employee's active booking", rate=Rate(per="booking request"), example=("emp-42",))
    def active_booking(employee_id: EmployeeId) -> Query[Booking]: ...

A system touches its stores only through patterns. Everything else (documentation, design check, cost,
policies, tools for agents) is derived by calling each pattern with its example and inspecting the operation,
without running it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, ParamSpec, TypeAlias, TypeVar, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError, create_model
from pydantic.config import ConfigDict

from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.model.operations import Operation

__all__ = [
    "Pattern",
    "Rate",
    "pattern",
]

P = ParamSpec("P")
O_co = TypeVar("O_co", bound=Operation[Any], covariant=True)

# Allows any argument name, `model_id` included.
_ARGUMENTS_CONFIG: Final = ConfigDict(extra="forbid", protected_namespaces=())

Arguments: TypeAlias = tuple[Any, ...] | Mapping[str, Any]
Example: TypeAlias = Arguments | Callable[[], Arguments]


@dataclass(frozen=True)
class Rate:
    """How often a pattern runs: `times` per event `per`, whose frequency the system's `Load` gives."""

    per: str
    times: float = 1.0

    def __str__(self) -> str:
        return f"{self.times:g} × per {self.per}"


class Pattern(Generic[P, O_co]):
    """A function that builds one operation. Call it; the operation carries the pattern's id."""

    def __init__(
        self, function: Callable[P, O_co], id: str, purpose: str, rate: Rate, example: Example
    ) -> None:
        self.function, self.id, self.purpose, self.rate = function, id, purpose, rate
        self._example = example
        # The guarantee that built it; None for a pattern that a system declares itself.
        self.guarantee: Any = None
        self.name = function.__name__
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> O_co:
        try:
            operation = self.function(*args, **kwargs)
        except TypeError as error:
            raise self._explain_type_error(error, args, kwargs) from error
        if not isinstance(operation, Operation):
            raise DeclarationError(
                f"Invalid result of pattern {self.id} ({self.name}): expected one operation, got "
                f"{operation!r}."
            )
        return operation.with_pattern(self.id)

    @functools.cached_property
    def writes(self) -> bool:
        """Whether its operation changes a store: by the return annotation, or else by the example."""
        kind = self._annotated_operation
        return self.build_example().writes if kind is None else kind.writes

    def build_example(self) -> O_co:
        """Return the operation for the declared example."""
        return self.call_with(self.example_arguments)

    @property
    def example_arguments(self) -> Arguments:
        """The declared example's arguments; a function is called each time."""
        return self._example() if callable(self._example) else self._example

    def call_with(self, arguments: Arguments) -> O_co:
        """Return the operation for a tuple of positional or a mapping of named arguments."""
        call: Any = self
        operation: O_co = call(**arguments) if isinstance(arguments, Mapping) else call(*arguments)
        return operation

    def call_with_json(self, arguments: Mapping[str, Any]) -> O_co:
        """Return the operation for JSON arguments, converted by the declared types; raise `InvalidRequest` if
        they are invalid.
        """
        try:
            checked = self.arguments_model.model_validate(arguments)
        except ValidationError as error:
            reasons = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise InvalidRequest(
                f"Invalid arguments of {self.name} ({self.id}): {reasons.rstrip('.')}."
            ) from error
        return self.call_with({name: getattr(checked, name) for name in self.signature.parameters})

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The function's signature with its annotations resolved to types."""
        hints = get_type_hints(self.function, include_extras=True)
        signature = inspect.signature(self.function)
        return signature.replace(
            parameters=[
                parameter.replace(annotation=hints.get(name, Any))
                for name, parameter in signature.parameters.items()
            ],
            return_annotation=hints.get("return", Any),
        )

    @functools.cached_property
    def arguments_model(self) -> type[BaseModel]:
        """The arguments as a Pydantic model, which validates JSON callers and provides the JSON schema."""
        fields: dict[str, Any] = {
            name: (
                parameter.annotation,
                ... if parameter.default is inspect.Parameter.empty else parameter.default,
            )
            for name, parameter in self.signature.parameters.items()
        }
        model: type[BaseModel] = create_model(self.name, __config__=_ARGUMENTS_CONFIG, **fields)
        return model

    @property
    def _annotated_operation(self) -> type[Operation[Any]] | None:
        """The operation class of the return annotation; None if that does not name exactly one."""
        try:
            annotation = get_type_hints(self.function).get("return")
        except NameError:  # a name that only the type checker imports
            return None
        kind = get_origin(annotation) or annotation
        is_operation = isinstance(kind, type) and issubclass(kind, Operation) and not inspect.isabstract(kind)
        return kind if is_operation else None

    def _explain_type_error(
        self, error: TypeError, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Exception:
        """Return `InvalidRequest` for a call that does not fit the signature; return any other TypeError
        unchanged.
        """
        try:
            inspect.signature(self.function).bind(*args, **kwargs)
        except TypeError as misfit:
            return InvalidRequest(
                f"Invalid call of pattern {self.id}: {misfit}. Expected "
                f"{self.name}{inspect.signature(self.function)}."
            )
        return error

    def __repr__(self) -> str:
        return f"Pattern({self.id!r}, {self.name})"


def pattern(
    id: str, purpose: str, *, rate: Rate, example: Example = ()
) -> Callable[[Callable[P, O_co]], Pattern[P, O_co]]:
    """Declare the decorated function as an access pattern; `example` is its arguments, or a function that
    returns them.
    """
    return lambda function: Pattern(function, id, purpose, rate, example)
