"""The values of a resource tree: what a system needs in AWS, before a printer writes it for a tool.

Kinds and properties have the names of AWS's own resource model, which are those of CloudFormation. A printer
translates what its tool calls otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from holdfast.reports.iac.infrastructure import map_to_distinct_names

# Marks the position of the environment in a text: a character that no name can contain.
ENVIRONMENT_MARK: Final = "\0"


@dataclass(frozen=True)
class Address:
    """Identifies a resource by its kind and name. `part` is the suffix of a policy that was split."""

    kind: str
    name: str
    part: str = ""

    def refer(self, attribute: str, suffix: str = "") -> Reference:
        return Reference(self, attribute, suffix)


@dataclass(frozen=True)
class Reference:
    """An attribute of a resource, such as `Arn`, followed by a literal suffix."""

    address: Address
    attribute: str
    suffix: str = ""


@dataclass(frozen=True)
class ParameterReference:
    """The value that the deployer gives for a parameter."""

    name: str


@dataclass(frozen=True)
class NameByEnvironment:
    """A name that each environment has its own of."""

    names: Mapping[str, str]


@dataclass(frozen=True)
class ExistingKey:
    """A KMS key that the system names but does not create. `is_arn` asks for its ARN, for a policy."""

    name: str
    is_arn: bool = False


@dataclass(frozen=True)
class Password:
    """The password that is generated for a secret."""

    secret: Address


@dataclass(frozen=True)
class Parameter:
    """A value that the deployer gives. `error` describes what a valid value is."""

    name: str
    type: str
    description: str
    default: Any = None
    pattern: str = ""
    allowed: tuple[str, ...] = ()
    bounds: tuple[int, int] | None = None
    error: str = ""


@dataclass(frozen=True)
class Resource:
    """A resource with its properties; their values may contain references and environment marks."""

    address: Address
    properties: Mapping[str, Any]
    on_delete: Literal["Delete", "Retain", "Snapshot"] = "Delete"


@dataclass(frozen=True)
class Tree:
    """The resources of a system by section, in the order in which they are written, and its outputs."""

    parameters: list[Parameter]
    sections: Mapping[str, list[Resource]]
    outputs: list[Reference]
    existing_keys: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Resource]:
        return (resource for several in self.sections.values() for resource in several)

    def check_names(self, convert: Callable[[str], str]) -> None:
        """Raise `DeclarationError` if two resources of a kind have the same converted name."""
        for section, resources in self.sections.items():
            for kind in {resource.address.kind for resource in resources}:
                addresses = (each.address for each in resources if each.address.kind == kind)
                map_to_distinct_names((f"{each.name}{each.part}" for each in addresses), convert, section)
