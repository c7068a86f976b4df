"""The outer surface is as it was frozen: APIs, commands, settings, metrics, stores, files."""

from __future__ import annotations

import pytest

from tests.repo import command_runs, folder_lists, operator_lists, surface


@pytest.mark.parametrize("name", surface.LISTS)
def test_list_is_as_frozen(name: str) -> None:
    difference = surface.describe_difference(name)
    if difference is not None:
        pytest.fail(difference, pytrace=False)


def test_every_golden_file_has_its_list() -> None:
    assert {file.stem for file in surface.GOLDEN.glob("*.json")} == set(surface.LISTS)


def test_every_command_with_json_is_run() -> None:
    with_json = {
        words
        for words, command in operator_lists.walk_commands()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    ran = [f"{words} " for words in folder_lists.collect_facts().ran]

    missing = {words for words in with_json if not any(each.startswith(f"{words} ") for each in ran)}
    assert missing == set(command_runs.NOT_RUN), (
        f"These commands have --json: {sorted(missing)}, and NOT_RUN is "
        f"{sorted(command_runs.NOT_RUN)}. Run a new "
        "command in tests/repo/command_runs.py, or name it in NOT_RUN with the reason."
    )


def test_a_removed_and_an_added_line_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *others = surface.read_golden("distribution")
    monkeypatch.setitem(surface.LISTS, "distribution", lambda: ["script anchor", *others])

    described = surface.describe_difference("distribution")

    assert described is not None
    assert f"Removed (1):\n  {first}\n" in described
    assert "Added (1):\n  script anchor\n" in described
    assert described.endswith(surface.HOW_TO_ACCEPT)
