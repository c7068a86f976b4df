"""docs/internals/requirements.md is complete: every requirement has a test that is marked with it."""

from __future__ import annotations

import pytest

from tests.repo import requirements

# The size of each document's list: numbered requirements, and contradictions.
LISTS = {"SM": (50, 26), "RP": (46, 19), "AP": (58, 21), "PG": (57, 29), "TC": (103, 28)}


def list_ids(system: str) -> list[str]:
    """Return the ids of a document's requirements, then of its contradictions."""
    demands, contradictions = LISTS[system]
    return [f"{system}-{n}" for n in range(1, demands + 1)] + [
        f"{system}-X{n}" for n in range(1, contradictions + 1)
    ]


@pytest.mark.parametrize("system", LISTS)
def test_the_page_has_every_requirement_of_the_document_and_no_other(system: str) -> None:
    listed = [id for id in requirements.read_rows() if id.startswith(f"{system}-")]

    assert listed == list_ids(system)


def test_every_requirement_is_proved_by_a_marked_test_and_every_mark_names_one() -> None:
    known = {id for system in LISTS for id in list_ids(system)}
    marked = {id for id, tests in requirements.find_marked_tests().items() if tests}

    assert known - marked == set(), "no test is marked @pytest.mark.proves(id)"
    assert marked - known == set()


def test_the_page_names_the_tests_that_are_marked() -> None:
    # `python -m tests.repo.requirements` updates them.
    assert requirements.PAGE.read_text(encoding="utf-8") == requirements.render_page()


def test_the_page_names_modules_that_exist() -> None:
    folders = [
        requirements.ROOT / "src" / "holdfast",
        *sorted((requirements.ROOT / "systems").iterdir()),
        requirements.ROOT,
    ]
    for id, (_, modules, _) in requirements.read_rows().items():
        for module in modules.replace("`", "").split(", "):
            assert any(
                (folder / module).exists() or (folder / f"{module}.py").exists() for folder in folders
            ), (
                id,
                module,
            )
