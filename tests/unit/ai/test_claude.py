"""The adapter of Anthropic's Messages API, against the Claude sandbox over real HTTP; prices and settings."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.ai import (
    ClaudeReasoner,
    DataBlock,
    TokenUsage,
    Tool,
    ToolUse,
    load_models,
    load_shipped_models,
    open_reasoner,
)
from holdfast.ai.claude import INPUT_TOKENS_OVERHEAD
from holdfast.config.settings import Settings
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, SecretMissing, SettingsError
from holdfast.web import serve_in_thread
from holdfast_demo.agenticpm.sandbox.claude import (
    ClaudeSandbox,
    ResponseBuilder,
    build_claude_app,
    build_error,
    build_invalid_body,
    build_refusal,
    build_text,
    build_tool_call,
)

MODEL = "claude-haiku-5-5"
TOOL = Tool("note", "Takes a note.", {"type": "object", "properties": {"text": {"type": "string"}}})


async def ask(reasoner: Any) -> ToolUse:
    """Call the reasoner with fixed instructions, data and tool."""
    answer: ToolUse = await reasoner.use_tool(
        instructions="Take a note.", data=[DataBlock("ticket X-1", "It is late.")], tool=TOOL, tokens_max=200
    )
    return answer


async def call_reasoner(*answers: ResponseBuilder, model: str = MODEL) -> tuple[ToolUse, ClaudeSandbox]:
    """Call a reasoner on a sandbox that gives these answers. Return the outcome and the sandbox."""
    claude = ClaudeSandbox(responses=list(answers))

    async def run(url: str) -> ToolUse:
        async with httpx2.AsyncClient(base_url=url) as http:
            return await ask(ClaudeReasoner(http, model))

    with serve_in_thread(build_claude_app(claude)) as url:
        return await run(url), claude


async def test_returns_the_tools_input_after_a_thinking_block() -> None:
    answer, _ = await call_reasoner(build_tool_call({"text": "late"}))

    assert (answer.input, answer.model, answer.reason) == ({"text": "late"}, MODEL, "")


async def test_forces_its_tool_without_thinking_where_the_model_allows_it() -> None:
    _, claude = await call_reasoner(build_tool_call({}))
    (request,) = claude.requests

    assert request["tool_choice"] == {"type": "tool", "name": "note", "disable_parallel_tool_use": True}
    assert request["thinking"] == {"type": "disabled"}
    assert [tool["name"] for tool in request["tools"]] == ["note"]
    assert request["max_tokens"] == 200


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-opus-5-5"])
async def test_asks_a_model_that_cannot_be_forced(model: str) -> None:
    answer, claude = await call_reasoner(build_tool_call({"text": "late"}), model=model)

    assert answer.input == {"text": "late"}
    assert claude.requests[0]["tool_choice"]["type"] == "auto"
    assert "thinking" not in claude.requests[0]


async def test_instructions_are_the_system_prompt_and_data_is_the_message() -> None:
    _, claude = await call_reasoner(build_tool_call({}))
    (request,) = claude.requests
    shown = request["messages"][0]["content"][0]["text"]

    assert "It is late." in shown and "It is late." not in request["system"]
    assert "Take a note." in request["system"] and "Take a note." not in shown


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (build_tool_call({"text": "la"}, stop="max_tokens"), "its answer was cut short (max_tokens)"),
        (
            build_tool_call({"text": "la"}, stop="model_context_window_exceeded"),
            "its answer was cut short (model_context_window_exceeded)",
        ),
        (build_refusal(), "it declined to answer"),
        (build_text("It is late, I think."), "it called no tool (end_turn)"),
        (build_tool_call({}, tool="mail_everyone"), "it called mail_everyone, which it was not given"),
        (build_tool_call({}, times=2), "it called note 2 times"),
        (build_tool_call(["late"]), "the input of note is not an object"),
    ],
)
async def test_reports_a_missing_tool_call_that_is_still_paid_for(
    answer: ResponseBuilder, reason: str
) -> None:
    given, _ = await call_reasoner(answer)

    assert given.input is None
    assert given.reason == reason
    assert given.usage.usd > 0


@pytest.mark.parametrize("status", [429, 529, 500, 503])
async def test_temporary_failure_says_when_to_retry(status: int) -> None:
    with pytest.raises(ExternalServiceFailed) as error:
        await call_reasoner(build_error(status, retry_after="7"))

    assert (error.value.retry_after_s, error.value.may_be_done) == (7.0, False)


async def test_temporary_failure_without_a_pause_has_none() -> None:
    with pytest.raises(ExternalServiceFailed) as error:
        await call_reasoner(build_error(429, retry_after=None))

    assert error.value.retry_after_s is None


@pytest.mark.parametrize("status", [401, 403])
async def test_error_for_a_refused_key_names_the_setting(status: int) -> None:
    with pytest.raises(ExternalServiceFailed, match="reasoner_secret"):
        await call_reasoner(build_error(status))


@pytest.mark.parametrize("status", [400, 404, 413])
async def test_refused_request_is_permanent_and_quotes_the_services_error(status: int) -> None:
    with pytest.raises(ExternalServiceRefused, match="as the test wants it") as error:
        await call_reasoner(build_error(status))

    assert error.value.code in ("invalid_request_error", "not_found_error", "request_too_large")


@pytest.mark.parametrize(
    "body",
    [
        "<html>",
        "[]",
        "null",
        '{"content": "text"}',
        '{"content": "text", "usage": {}}',
        '{"content": []}',
        '{"content": [], "usage": {"input_tokens": 1}}',
        '{"content": [], "usage": {"input_tokens": -1, "output_tokens": 1}}',
        '{"content": [], "usage": {"input_tokens": "9", "output_tokens": 1}}',
        "[" * 100_000,
    ],
)
async def test_invalid_response_is_a_failure_of_the_service(body: str) -> None:
    with pytest.raises(ExternalServiceFailed, match="Invalid (answer|token count)"):
        await call_reasoner(build_invalid_body(body))


@pytest.mark.parametrize("content", ["text", None, {"type": "tool_use"}, 7])
async def test_counts_the_usage_of_an_unreadable_answer(content: Any) -> None:
    body = {"content": content, "usage": {"input_tokens": 1000, "output_tokens": 100}}
    answer, _ = await call_reasoner(build_invalid_body(json.dumps(body)))

    assert (answer.input, answer.reason) == (None, "its answer has no readable content")
    assert answer.usage == TokenUsage(1000, 100, load_shipped_models().get(MODEL).compute_cost_usd(1000, 100))


async def test_limits_the_reported_usage_to_what_was_sent_and_requested() -> None:
    body = {"content": [], "usage": {"input_tokens": 10**30, "output_tokens": 10**30}}
    answer, claude = await call_reasoner(build_invalid_body(json.dumps(body)))

    assert answer.usage.output_tokens == claude.requests[0]["max_tokens"]
    assert answer.usage.input_tokens <= len(json.dumps(claude.requests[0])) + INPUT_TOKENS_OVERHEAD


async def test_invalid_content_blocks_are_not_a_tool_call() -> None:
    body = {"content": ["x", None, {"type": "tool_use"}], "usage": {"input_tokens": 1, "output_tokens": 1}}
    answer, _ = await call_reasoner(build_invalid_body(json.dumps(body)))

    assert answer.reason == "it called a tool without a name, which it was not given"


async def test_missing_connection_is_a_temporary_failure() -> None:
    async def run() -> None:
        async with httpx2.AsyncClient(base_url="http://127.0.0.1:1") as http:
            await ask(ClaudeReasoner(http, MODEL))

    with pytest.raises(ExternalServiceFailed, match="No connection") as error:
        await run()
    assert not error.value.may_be_done


# --- prices -------------------------------------------------------------------------------------------------


async def test_prices_usage_by_the_dated_table() -> None:
    answer, _ = await call_reasoner(build_tool_call({"text": "late"}, tokens=150))
    given = answer.usage.input_tokens

    assert answer.usage.output_tokens == 150
    assert answer.usage.usd == (given * Decimal("0.10") + 150 * Decimal("0.50")) / 1_000_000


def test_long_prompt_costs_the_upper_tier() -> None:
    model = load_shipped_models().get(MODEL)

    assert model.compute_cost_usd(100_000, 0) == Decimal("0.01")
    assert model.compute_cost_usd(100_001, 1_000_000) == Decimal("2.5500005")


def test_prices_state_their_date_and_source() -> None:
    assert load_shipped_models().as_of.isoformat() == "2026-10-10"
    assert load_shipped_models().source.startswith("https://")


def test_rejects_a_model_without_a_price() -> None:
    with pytest.raises(SettingsError, match="claude-haiku-5-5.*reasoner_prices"):
        load_shipped_models().get("claude-of-tomorrow")


def test_price_file_replaces_the_built_in_prices(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    tier = {"input_tokens_max": None, "input": "3", "output": "6"}
    table = {"as_of": "2027-01-01", "source": "https://example.com", "unit": "USD per million tokens"}
    file.write_text(json.dumps(table | {"models": {"m": {"tool": "asked", "tiers": [tier]}}}))

    assert load_models(file).get("m").compute_cost_usd(1_000_000, 1_000_000) == 9


@pytest.mark.parametrize("text", ["", "{}", '{"models": 3}'])
def test_rejects_an_invalid_price_file_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(text)

    with pytest.raises(SettingsError, match=r"prices\.json"):
        load_models(file)


# --- from the settings --------------------------------------------------------------------------------------


async def test_rules_need_no_reasoner_and_no_key() -> None:
    async def run() -> object:
        async with open_reasoner(Settings()) as reasoner:
            return reasoner

    assert await run() is None


async def test_key_is_the_secret_named_by_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET_TEST_MODEL", "key-of-the-test")
    claude = ClaudeSandbox(key="key-of-the-test", responses=[build_tool_call({"text": "late"})])

    async def run(url: str) -> ToolUse:
        settings = Settings(reasoner="claude", reasoner_url=url, reasoner_secret="test_model")
        async with open_reasoner(settings) as reasoner:
            return await ask(reasoner)

    with serve_in_thread(build_claude_app(claude)) as url:
        assert (await run(url)).input == {"text": "late"}


async def test_reports_a_missing_key_on_use_and_accepts_it_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HOLDFAST_SECRET_ANTHROPIC", raising=False)

    async def run(url: str) -> ToolUse:
        async with open_reasoner(Settings(reasoner="claude", reasoner_url=url)) as reasoner:
            with pytest.raises(SecretMissing, match="HOLDFAST_SECRET_ANTHROPIC"):
                await ask(reasoner)
            monkeypatch.setenv("HOLDFAST_SECRET_ANTHROPIC", "key-of-the-test")
            return await ask(reasoner)

    with serve_in_thread(build_claude_app(ClaudeSandbox(key="key-of-the-test"))) as url:
        assert (await run(url)).input == {}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HOLDFAST_REASONER", "oracle", "Invalid reasoner='oracle': expected 'rules', or 'claude'"),
        ("HOLDFAST_REASONER_URL", "http://api.example.com", "would send the key unencrypted"),
        ("HOLDFAST_REASONER_URL", "http://127.0.0.1.example.com", "would send the key unencrypted"),
        ("HOLDFAST_REASONER_URL", "http://127.0.0.1:80@example.com/", "would send the key unencrypted"),
    ],
)
def test_rejects_an_invalid_setting(name: str, value: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=message):
        Settings.load(environ={name: value})


def test_missing_client_names_the_extra_to_install() -> None:
    script = (
        "import asyncio, sys; sys.modules['httpx2'] = None\n"
        "from holdfast.ai import open_reasoner\n"
        "from holdfast.config.settings import Settings\n"
        "async def run():\n"
        "    async with open_reasoner(Settings(reasoner='claude')): pass\n"
        "try: asyncio.run(run())\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ran.stdout.startswith("SettingsError Claude needs httpx2")
    assert "'holdfast-state[http]'" in ran.stdout
