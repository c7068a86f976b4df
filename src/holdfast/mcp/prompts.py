"""The prompts of a system: typical jobs that the user of an agent chooses and fills in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import DeclarationError
from holdfast.model.agents import Prompt
from holdfast.model.system import System
from holdfast.runtime.json_calls.arguments import (
    ArgumentReader,
    WholeResult,
    build_function_model,
    build_schema,
)


@dataclass(frozen=True)
class AgentPrompt:
    """One prompt: its name, title and description, its arguments, and the message that it makes of them."""

    name: str
    title: str
    description: str
    # Of each argument, its description and whether it is required.
    arguments: Mapping[str, tuple[str, bool]]
    declared: Prompt
    reader: ArgumentReader
    system: str

    def render(self, given: Mapping[str, str]) -> str:
        """Return the message. Raise `InvalidRequest` for a missing or unknown argument."""
        own, _ = self.reader.read(given)
        return self.declared(**own)


def build_agent_prompts(system: System, *, prefix: str = "") -> list[AgentPrompt]:
    """Build the prompts of a system. Raise `DeclarationError` for one without a docstring."""
    return [_build_prompt(system, each, prefix) for each in system.admin.prompts]


def _build_prompt(system: System, prompt: Prompt, prefix: str) -> AgentPrompt:
    description = " ".join((prompt.function.__doc__ or "").split())
    if not description:
        raise DeclarationError(
            f"The prompt {prompt.name} has no docstring. Add one: it says what the job achieves."
        )
    model = build_function_model(prompt.function, skipped=0)
    schema = build_schema(model, WholeResult, system.admin.arguments, prompt.example)
    required: list[Any] = schema.get("required", [])
    return AgentPrompt(
        name=prefix + prompt.name,
        title=prompt.name.replace("_", " ").capitalize(),
        description=description,
        arguments={
            name: (each.get("description", ""), name in required)
            for name, each in schema["properties"].items()
        },
        declared=prompt,
        reader=ArgumentReader(model, WholeResult, example=prompt.example),
        system=system.name,
    )
