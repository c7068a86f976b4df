"""The first tutorial can be followed in an empty folder from top to bottom, and what it claims holds."""

from __future__ import annotations

import json
import shlex
import shutil
from itertools import takewhile
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.docs import pages
from tests.docs.reader import FILE_OF_BLOCK, QUOTED_FILE, Reader, follow

PAGE = pages.DOCS / "tutorial" / "first_system.md"
BLOCKS = list(pages.parse_blocks(PAGE))


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Follow the page to its end."""
    return follow(PAGE, tmp_path_factory.mktemp("tutorial"))


def test_every_block_of_the_page_is_a_file_or_is_typed() -> None:
    for block in BLOCKS:
        is_file = FILE_OF_BLOCK.fullmatch(block.note) or QUOTED_FILE.fullmatch(block.note)
        assert is_file or block.language in {"console", "json"}, (
            f"{PAGE.name}:{block.line}: nothing tries this block"
        )


def test_the_text_before_a_block_names_its_file() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for block in BLOCKS:
        if named := FILE_OF_BLOCK.fullmatch(block.note) or QUOTED_FILE.fullmatch(block.note):
            # The fence is the line before the block, and an empty line comes before the fence.
            before = " ".join(takewhile(bool, reversed(lines[: block.line - 3])))
            assert f"`{named[1]}`" in before, f"{PAGE.name}:{block.line}: name the file before the block"


def test_the_page_can_be_followed_from_an_empty_folder_to_its_end(reader: Reader) -> None:
    assert (reader.folder / "build" / "docs" / "helpdesk.md").exists()
    assert (reader.folder / "data" / "tables.db").exists()


def test_the_mcp_client_configuration_starts_the_command_of_the_page() -> None:
    (server,) = (
        json.loads(block.text)["mcpServers"]["helpdesk"] for block in BLOCKS if block.language == "json"
    )

    typed = shlex.join([server["command"], *server["args"]])
    assert any(typed in block.text for block in BLOCKS if block.language == "console")


def test_without_its_condition_both_people_get_the_task(reader: Reader, tmp_path: Path) -> None:
    done = _run_changed(
        reader, tmp_path, "model/patterns.py", ".when(Task.assignee.not_exists())", "", "pytest -q"
    )

    assert done.returncode == 1
    assert "test_one_of_two_people_gets_the_task" in done.stdout


def test_a_higher_volume_makes_the_index_an_error_of_the_design(reader: Reader, tmp_path: Path) -> None:
    volume = '"task": Volume(30_000,'
    done = _run_changed(
        reader,
        tmp_path,
        "system.py",
        volume,
        volume.replace("30_000", "300_000_000"),
        "holdfast check helpdesk --json",
    )

    errors = [each for each in json.loads(done.stdout) if each["severity"] == "error"]
    assert done.returncode == 1
    assert {each["subject"] for each in errors} == {"helpdesk_tasks.open-by-due-time"}
    assert any("a partition serves 1,000" in each["message"] for each in errors)


@pytest.mark.parametrize(
    ("component", "refused"),
    [("agent", ("PutItem", "UpdateItem", "DeleteItem")), ("worker", ("PutItem", "DeleteItem"))],
)
def test_the_policy_of_a_component_allows_only_its_patterns(
    reader: Reader, tmp_path: Path, component: str, refused: tuple[str, ...]
) -> None:
    done = reader.run(f"holdfast iam helpdesk --out {shlex.quote(str(tmp_path))}")
    assert done.returncode == 0, done.stderr

    policy = json.loads((tmp_path / f"helpdesk-{component}.json").read_text(encoding="utf-8"))
    actions = {action for each in policy["Statement"] for action in each["Action"]}
    assert "dynamodb:Query" in actions
    assert not {f"dynamodb:{name}" for name in refused} & actions


def _run_changed(
    reader: Reader, folder: Path, file: str, old: str, new: str, line: str
) -> CompletedProcess[str]:
    """Run a command on a copy of the reader's project in which one text of a file is replaced."""
    project = shutil.copytree(reader.folder, folder / "helpdesk", ignore=shutil.ignore_patterns("data"))
    changed = project / "src" / "helpdesk" / file
    text = changed.read_text(encoding="utf-8")
    assert text.count(old) == 1
    changed.write_text(text.replace(old, new), encoding="utf-8")
    path = reader.env["PYTHONPATH"].replace(str(reader.folder), str(project))
    return reader.run(f"cd {shlex.quote(str(project))} && {line}", PYTHONPATH=path)
