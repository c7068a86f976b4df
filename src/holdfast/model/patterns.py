"""Access patterns: typed functions that return one operation, with an id, a purpose, a rate and an example.

    @pattern("D6", "The active booking of an employee", rate=Rate(per="booking request"), example=("emp-42",))
    def active_booking(employee_id: EmployeeId) -> Query[Booking]: ...

They are the only way a system touches a store. Everything else (documentation, design check, cost, policies,
tools for agents) follows from calling each with its example and looking at the operation, without running it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, ParamSpec, TypeAlias, TypeVar, get_type_hints

from pydantic import BaseModel, ValidationError, create_model
from pydantic.config import ConfigDict

from holdfast.errors import DeclarationError, InvalidRequest
from holdfast.model.operations import Operation

P = ParamSpec("P")
O_co = TypeVar("O_co", bound=Operation[Any], covariant=True)

# Arguments may be called whatever they are called, `model_id` too.
_ARGUMENTS: Final = ConfigDict(extra="forbid", protected_namespaces=())

Arguments: TypeAlias = tuple[Any, ...] | Mapping[str, Any]
Example: TypeAlias = Arguments | Callable[[], Arguments]


@dataclass(frozen=True)
class Rate:
    """How often a pattern runs: so many times per thing that happens. The system says how often that is."""

    per: str
    times: float = 1.0

    def __str__(self) -> str:
        return f"{self.times:g} × per {self.per}"


class Pattern(Generic[P, O_co]):
    """A function that makes one operation. Call it; the operation carries its id."""

    def __init__(
        self, function: Callable[P, O_co], id: str, purpose: str, rate: Rate, example: Example
    ) -> None:
        self.function, self.id, self.purpose, self.rate = function, id, purpose, rate
        self._example = example
        self.name = function.__name__
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> O_co:
        try:
            operation = self.function(*args, **kwargs)
        except TypeError as error:
            raise self._misused(error, args, kwargs) from error
        if not isinstance(operation, Operation):
            raise DeclarationError(
                f"The pattern {self.id} ({self.name}) returned {operation!r}: a pattern returns one operation."
            )
        return operation.by_pattern(self.id)

    def example(self) -> O_co:
        """The operation that the declared example makes."""
        return self.called_with(self.example_arguments)

    @property
    def example_arguments(self) -> Arguments:
        return self._example() if callable(self._example) else self._example

    def called_with(self, arguments: Arguments) -> O_co:
        call: Any = self
        return call(**arguments) if isinstance(arguments, Mapping) else call(*arguments)  # type: ignore[no-any-return]

    def called_with_plain(self, arguments: Mapping[str, Any]) -> O_co:
        """The operation for arguments as JSON has them, checked and converted by the declared types."""
        try:
            checked = self.arguments_model.model_validate(arguments)
        except ValidationError as error:
            told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise InvalidRequest(
                f"{self.name} ({self.id}) was called wrongly: {told.rstrip('.')}."
            ) from error
        return self.called_with({name: getattr(checked, name) for name in self.signature.parameters})

    @functools.cached_property
    def signature(self) -> inspect.Signature:
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
        """The arguments as a Pydantic model: what JSON callers are checked by, and its JSON schema."""
        fields: dict[str, Any] = {
            name: (
                parameter.annotation,
                ... if parameter.default is inspect.Parameter.empty else parameter.default,
            )
            for name, parameter in self.signature.parameters.items()
        }
        made: type[BaseModel] = create_model(self.name, __config__=_ARGUMENTS, **fields)
        return made

    def _misused(self, error: TypeError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception:
        """A call that does not fit the signature is the caller's; any other TypeError is left as it is."""
        try:
            inspect.signature(self.function).bind(*args, **kwargs)
        except TypeError as misfit:
            return InvalidRequest(
                f"The pattern {self.id} is called as {self.name}{inspect.signature(self.function)}: {misfit}."
            )
        return error

    def __repr__(self) -> str:
        return f"Pattern({self.id!r}, {self.name})"


def pattern(
    id: str, purpose: str, *, rate: Rate, example: Example = ()
) -> Callable[[Callable[P, O_co]], Pattern[P, O_co]]:
    """Declares the decorated function as an access pattern. `example` is its arguments, or makes them."""
    return lambda function: Pattern(function, id, purpose, rate, example)
