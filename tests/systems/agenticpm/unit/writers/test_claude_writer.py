"""Tests of the Claude writer against its sandbox: it changes only words, and falls back to the rules."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType, validate_content
from agenticpm.integrations.claude.wording import WORDINGS, build_form, build_tool
from holdfast_demo.agenticpm.sandbox.claude import (
    ClaudeSandbox,
    ResponseBuilder,
    build_error,
    build_invalid_body,
    build_refusal,
    build_text,
    build_tool_call,
)
from tests.systems.agenticpm.unit.writers.claude_drafts import (
    BACKLOG,
    BLOCKED,
    MODEL,
    NOW,
    RAID,
    STATE,
    get_prompt,
    make_ticket,
    make_writing,
    write_by_rules,
    write_draft,
    write_drafts,
)


def drop_keys(content: Any, *names: str) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in names}


# --- valid answers ------------------------------------------------------------------------------------------


async def test_puts_the_models_words_into_the_rules_draft_and_keeps_the_rest() -> None:
    words = {
        "status_summary": "Design assets hold up the profile page.",
        "next_actions": ["Ask Sarah for the assets"],
        "milestones": [{"name": "Beta launch", "notes": "Hangs on the profile page."}],
    }
    made, _ = await write_draft(STATE, build_tool_call(words))
    rules = (await write_by_rules(make_writing(STATE))).content

    assert made.writer == f"claude ({MODEL})"
    assert made.content["status_summary"] == words["status_summary"]
    assert made.content["next_actions"] == words["next_actions"]
    assert made.content["milestones"] == [rules["milestones"][0] | {"notes": "Hangs on the profile page."}]
    kept = ("status_summary", "next_actions", "milestones")
    assert drop_keys(made.content, *kept) == drop_keys(rules, *kept)
    validate_content(STATE, made.content)


@pytest.mark.parametrize(
    ("type", "words"),
    [
        (RAID, {"items": [{"id": "R001", "mitigation": "Ask the design lead on Friday"}]}),
        (
            BACKLOG,
            {
                "scope_notes": "Nothing came in.",
                "highlights": [{"ticket_id": "MCU-142", "flag": "blocked", "suggested_action": "Ask Sarah"}],
            },
        ),
    ],
)
async def test_changes_only_the_named_words_of_each_artefact(
    type: ArtefactType, words: dict[str, Any]
) -> None:
    made, _ = await write_draft(type, build_tool_call(words))
    rules = json.loads(json.dumps((await write_by_rules(make_writing(type))).content, default=str))
    (name, entries), *_ = [each for each in WORDINGS[type].lists.items() if each[0] in words]
    rules[name][0] |= words[name][0]
    if type is BACKLOG:
        rules["scope_notes"] = words["scope_notes"]

    assert json.loads(json.dumps(made.content, default=str)) == rules
    assert entries.words


async def test_draft_states_its_cost() -> None:
    made, claude = await write_draft(STATE, build_tool_call({"status_summary": "All well."}, tokens=400))

    assert made.usd > 400 * Decimal("0.50") / 1_000_000
    assert len(claude.requests) == 1


async def test_second_attempt_states_what_was_wrong_and_both_are_paid_for() -> None:
    once, _ = await write_draft(STATE, build_tool_call({"status_summary": "Fine."}, tokens=100))
    made, claude = await write_draft(
        STATE,
        build_tool_call({"status_summary": 3}, tokens=100),
        build_tool_call({"status_summary": "Fine."}, tokens=100),
    )

    assert made.writer == f"claude ({MODEL})"
    assert made.usd > once.usd * 2 - Decimal("0.000001")
    assert "status_summary: Input should be a valid string" in get_prompt(claude, 1)
    assert "Input should" not in claude.requests[1]["system"]


async def test_does_not_ask_the_model_about_decisions() -> None:
    made, claude = await write_draft(ArtefactType.decision_log)

    assert (made.writer, made.usd) == ("rules", Decimal(0))
    assert not claude.requests


# --- invalid answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            build_tool_call({"status_summary": ["a", "b"]}),
            "refused: status_summary: Input should be a valid string",
        ),
        (
            build_tool_call({"overall_status": "green"}),
            "refused: overall_status: Extra inputs are not permitted",
        ),
        (
            build_tool_call({"status_summary": "Fine."}, tool="mail_everyone"),
            "refused: it called mail_everyone",
        ),
        (build_tool_call({"status_summary": "Fi"}, stop="max_tokens"), "refused: its answer was cut short"),
        (build_refusal(), "refused: it declined"),
        (build_text("Here is a summary."), "refused: it called no tool"),
        (
            build_tool_call({"milestones": [{"name": "Gamma", "notes": "x"}]}),
            "refused: milestones: the draft has no entry Gamma",
        ),
        (build_tool_call({"status_summary": " "}), "refused: status_summary has 0 characters"),
        (build_tool_call({"status_summary": "x" * 5000}), "refused: status_summary has 5000 characters"),
        (build_tool_call({"next_actions": ["x"] * 50}), "refused: next_actions has 50 entries"),
    ],
)
async def test_two_invalid_answers_leave_the_rules_draft_with_the_reason(
    answer: ResponseBuilder, why: str
) -> None:
    made, claude = await write_draft(STATE, answer)

    assert made.content == (await write_by_rules(make_writing(STATE))).content
    assert made.writer.startswith(f"rules (claude {why}")
    assert len(claude.requests) == 2
    assert made.usd > 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (build_error(429, retry_after="30"), "Claude is not accepting requests now"),
        (build_error(529), "Claude is not accepting requests now"),
        (build_error(500), "Claude is not accepting requests now"),
        (build_error(401), "Claude refused the key"),
        (build_error(400), "Claude refused the request"),
        (build_invalid_body(), "Invalid answer from Claude"),
    ],
)
async def test_failing_model_is_asked_once_and_the_rules_draft_is_used(
    answer: ResponseBuilder, why: str
) -> None:
    made, claude = await write_draft(STATE, answer)

    assert made.content == (await write_by_rules(make_writing(STATE))).content
    assert made.writer.startswith(f"rules (claude failed: {why}")
    assert (len(claude.requests), made.usd) == (1, Decimal(0))


async def test_failure_after_a_paid_answer_is_still_paid_for() -> None:
    made, _ = await write_draft(STATE, build_tool_call({"status_summary": 3}), build_error(500))

    assert made.writer.startswith("rules (claude failed:")
    assert made.usd > 0


async def test_unreadable_answer_with_usage_is_paid_for() -> None:
    body = {"content": "words", "usage": {"input_tokens": 1000, "output_tokens": 100}}
    made, claude = await write_draft(STATE, build_invalid_body(json.dumps(body)))

    assert made.writer == "rules (claude refused: its answer has no readable content)"
    assert made.usd == len(claude.requests) * (1000 * Decimal("0.10") + 100 * Decimal("0.50")) / 1_000_000


async def test_does_not_ask_the_model_before_the_pause_ends() -> None:
    claude = ClaudeSandbox(
        responses=[build_error(429, retry_after="30"), build_tool_call({"status_summary": "Fine."})]
    )
    later = [NOW + timedelta(seconds=each) for each in (0, 29, 30)]
    made = await write_drafts(claude, *(make_writing(STATE, now=each) for each in later))

    assert [each.writer.split(":")[0] for each in made] == [
        "rules (claude failed",
        "rules (claude is paused after a failure)",
        f"claude ({MODEL})",
    ]
    assert len(claude.requests) == 2


# --- repeated requests --------------------------------------------------------------------------------------


async def test_does_not_ask_twice_about_the_same_facts_and_keeps_the_words() -> None:
    claude = ClaudeSandbox(
        responses=[
            build_tool_call({"status_summary": "First."}),
            build_tool_call({"status_summary": "Second."}),
        ]
    )
    (first,) = await write_drafts(ClaudeSandbox(responses=claude.responses[:1]), make_writing(STATE))
    made = await write_drafts(
        claude,
        make_writing(STATE),
        make_writing(STATE, previous=first.content, now=NOW + timedelta(minutes=15)),
    )

    assert [each.content["status_summary"] for each in made] == ["First.", "First."]
    assert (made[1].writer, made[1].usd, len(claude.requests)) == ("claude (kept)", Decimal(0), 1)


async def test_keeps_words_that_a_person_changed_in_between() -> None:
    claude = ClaudeSandbox(responses=[build_tool_call({"status_summary": "First."})])
    by_hand = dict((await write_by_rules(make_writing(STATE))).content) | {"status_summary": "Mine."}
    made = await write_drafts(claude, make_writing(STATE), make_writing(STATE, previous=by_hand))

    assert made[1].content["status_summary"] == "Mine."


async def test_asks_again_about_other_facts() -> None:
    claude = ClaudeSandbox(
        responses=[
            build_tool_call({"status_summary": "First."}),
            build_tool_call({"status_summary": "Second."}),
        ]
    )
    made = await write_drafts(claude, make_writing(STATE), make_writing(STATE, make_ticket("MCU-143")))

    assert [each.content["status_summary"] for each in made] == ["First.", "Second."]


async def test_asks_once_for_the_words_of_a_raid_item() -> None:
    (first,) = await write_drafts(ClaudeSandbox(responses=[build_tool_call({})]), make_writing(RAID))
    made, claude = await write_draft(
        RAID, build_tool_call({"items": [{"id": "R001", "mitigation": "x"}]}), previous=first.content
    )

    assert (made.content, claude.requests) == (first.content, [])


# --- requests -----------------------------------------------------------------------------------------------


async def test_prompt_is_bounded_and_includes_the_blocked_ticket() -> None:
    many = [make_ticket(f"MCU-{number}", description="long " * 2000) for number in range(500, 900)]
    claude = ClaudeSandbox()
    await write_drafts(claude, make_writing(STATE, *many, BLOCKED))

    assert len(get_prompt(claude)) < 50_000
    assert "Design assets are missing" in get_prompt(claude)


async def test_addresses_and_phone_numbers_in_tickets_are_not_sent() -> None:
    claude = ClaudeSandbox()
    text = "Write to joe@example.com or call +44 20 7946 0958"
    await write_drafts(
        claude, make_writing(STATE, make_ticket("MCU-1", title=text, description=text, is_blocked=True))
    )

    assert "MCU-1" in get_prompt(claude)
    assert "joe@" not in get_prompt(claude) and "7946" not in get_prompt(claude)


@pytest.mark.parametrize("type", list(WORDINGS))
def test_tool_schema_has_only_the_words(type: ArtefactType) -> None:
    words, schema = WORDINGS[type], build_tool(type).input_schema

    assert set(schema["properties"]) == {*words.texts, *words.lists}
    assert schema["additionalProperties"] is False
    for name, entries in words.lists.items():
        row = schema["properties"][name]["items"]
        assert set(row["properties"]) == {*entries.keys, *entries.words}
        assert row["required"] == list(entries.keys)
    assert "$ref" not in json.dumps(dict(schema))
    build_form(type).model_validate({})
