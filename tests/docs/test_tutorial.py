"""The first tutorial can be followed in an empty folder from top to bottom, and what it claims holds."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.docs import pages
from tests.docs.reader import FILE_OF_BLOCK, Reader, follow

PAGE = pages.DOCS / "tutorial" / "first_system.md"
BLOCKS = list(pages.parse_blocks(PAGE))


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Follow the page to its end."""
    return follow(PAGE, tmp_path_factory.mktemp("tutorial"))


def test_every_block_of_the_page_is_a_file_or_is_typed() -> None:
    for block in BLOCKS:
        known = FILE_OF_BLOCK.fullmatch(block.note) or block.language in {"console", "json"}
        assert known, f"{PAGE.name}:{block.line}: nothing tries this block"


def test_the_page_can_be_followed_from_an_empty_folder_to_holdfast_up(reader: Reader) -> None:
    written = {path.name for path in (reader.folder / "build").iterdir()}

    assert written == {"docs", "cloudformation", "terraform", "iam"}
    assert all(any(path.iterdir()) for path in (reader.folder / "build").iterdir())


def test_the_mcp_client_configuration_starts_the_command_of_the_page() -> None:
    (server,) = (
        json.loads(block.text)["mcpServers"]["parcels"] for block in BLOCKS if block.language == "json"
    )

    typed = shlex.join([server["command"], *server["args"]])
    assert any(typed in block.text for block in BLOCKS if block.language == "console")


def test_second_run_of_the_script_fails_because_the_parcel_exists(reader: Reader) -> None:
    again = reader.run("python try_it.py")

    assert again.returncode == 1
    assert "ConditionFailed" in again.stderr


def test_the_corrected_file_of_rejects_can_be_imported(reader: Reader) -> None:
    mended = (reader.folder / "monday.csv.rejects.csv").read_text(encoding="utf-8").replace("heavy", "700")
    (reader.folder / "mended.csv").write_text(mended, encoding="utf-8")

    done = reader.run("holdfast import parcels Parcels mended.csv --strict")

    assert done.returncode == 0, done.stderr


def test_a_rate_without_its_volume_is_an_error_of_the_design(reader: Reader, tmp_path: Path) -> None:
    declared = (reader.folder / "parcels" / "__init__.py").read_text(encoding="utf-8")
    without = re.sub(r' *"import": Volume.*\n', "", declared)
    _copy(reader.folder / "parcels", tmp_path / "parcels")
    (tmp_path / "parcels" / "__init__.py").write_text(without, encoding="utf-8")

    path = reader.env["PYTHONPATH"].replace(str(reader.folder), str(tmp_path))
    done = reader.run(f"cd {shlex.quote(str(tmp_path))} && holdfast check parcels", PYTHONPATH=path)

    assert without != declared
    assert done.returncode == 1
    assert "import" in done.stdout


def test_the_intake_policy_does_not_allow_reads(reader: Reader) -> None:
    (policy,) = (reader.folder / "build" / "iam").glob("*intake*")

    statements = json.loads(policy.read_text(encoding="utf-8"))["Statement"]
    actions = {action for each in statements for action in each["Action"]}
    assert actions
    assert not {f"dynamodb:{name}" for name in ("GetItem", "BatchGetItem", "Query", "Scan")} & actions


@pytest.mark.parametrize("mistake", re.findall(r"`([^`]+)`", pages.split_sections(PAGE, 2)["13. Types"])[:2])
def test_the_mistakes_of_the_page_fail_the_type_check(reader: Reader, mistake: str) -> None:
    known = "from parcels.model import Parcel, ParcelId, RoundId\nfrom parcels.patterns import parcel\n"
    wrong = reader.folder / "wrong.py"
    wrong.write_text(f"{known}parcel_id = ParcelId('P-1')\n{mistake}\n", encoding="utf-8")

    done = reader.run("mypy wrong.py")

    assert done.returncode == 1
    assert re.findall(r"^wrong\.py:(\d+): error", done.stdout, flags=re.MULTILINE) == ["4"]


def _copy(source: Path, target: Path) -> None:
    target.mkdir()
    for path in source.glob("*.py"):
        (target / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
