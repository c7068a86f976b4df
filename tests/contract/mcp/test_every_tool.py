"""Every tool, resource and prompt of every system, over a real session, on embedded engines and services."""

from __future__ import annotations

import json

import jsonschema  # type: ignore[import-untyped]
import mcp_types as types

from holdfast.mcp.server import ERROR_META
from tests.cases import collect_failures

from .transcript import PERSON, Transcript


def get_text(result: types.CallToolResult) -> str:
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


def get_label(result: types.CallToolResult) -> str:
    return str((result.meta or {}).get(ERROR_META))


def test_every_tool_succeeds_with_its_example_and_keeps_its_output_schema(transcript: Transcript) -> None:
    assert transcript.results.keys() == transcript.tools.keys() == transcript.declared.keys()
    with collect_failures() as failures:
        for name, result in transcript.results.items():
            with failures.of(name):
                assert not result.is_error, get_text(result)
                assert json.loads(get_text(result)) == result.structured_content
                jsonschema.validate(result.structured_content, transcript.tools[name].output_schema or {})


def test_tool_fails_only_with_its_declared_errors(transcript: Transcript) -> None:
    """Call each tool with ids that nothing has: an empty result, or an error that the tool declares."""
    with collect_failures() as failures:
        for name, result in transcript.unknown.items():
            with failures.of(name):
                if result.is_error:
                    assert get_label(result) in transcript.declared[name].errors, get_text(result)
                    assert len(get_text(result)) > 20


def test_wrong_argument_is_named_and_its_value_is_not(transcript: Transcript) -> None:
    with collect_failures() as failures:
        for name, result in transcript.wrong.items():
            with failures.of(name):
                assert result.is_error
                assert get_label(result) == "InvalidRequest"
                assert '"no_such_argument" is unknown' in get_text(result)
                assert PERSON not in get_text(result)


def test_every_resource_can_be_read(transcript: Transcript) -> None:
    about = transcript.resources[f"holdfast://{transcript.system.name}/about"]
    for pattern in transcript.system.get_component("agent").patterns:
        assert f"| {pattern.id} | `{pattern.name}` |" in about
    assert all(transcript.resources.values())


def test_every_prompt_names_its_arguments_and_existing_tools(transcript: Transcript) -> None:
    assert transcript.prompts
    for prompt in transcript.system.admin.prompts:
        text = transcript.prompts[prompt.name]

        assert all(value in text for value in prompt.example.values())
        words = {word.strip("`.,;:()") for word in text.split()}
        assert {word for word in words if "_" in word and "." not in word} <= transcript.tools.keys()
