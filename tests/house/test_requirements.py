"""docs/requirements.md is complete and true: every requirement has a test that is marked with it."""

from __future__ import annotations

import pytest

from tests.house import requirements

# How far each document's list goes: numbered demands, and contradictions.
LISTS = {"SM": (50, 26), "RP": (46, 19), "AP": (58, 21), "PG": (57, 29), "TC": (103, 28)}


def ids_of(system: str) -> list[str]:
    demands, contradictions = LISTS[system]
    return [f"{system}-{n}" for n in range(1, demands + 1)] + [
        f"{system}-X{n}" for n in range(1, contradictions + 1)
    ]


@pytest.mark.parametrize("system", LISTS)
def test_the_page_has_every_requirement_of_the_document_and_no_other(system: str) -> None:
    listed = [id for id in requirements.rows() if id.startswith(f"{system}-")]

    assert listed == ids_of(system)


@pytest.mark.parametrize("id", [id for system in LISTS for id in ids_of(system)])
def test_the_requirement_is_proved_by_a_test(id: str) -> None:
    assert requirements.marked_tests().get(id), f"no test is marked @pytest.mark.proves({id!r})"


def test_no_test_proves_what_is_no_requirement() -> None:
    known = {id for system in LISTS for id in ids_of(system)}

    assert not set(requirements.marked_tests()) - known


def test_the_page_names_the_tests_that_are_marked() -> None:
    # `python -m tests.house.requirements` writes them anew.
    assert requirements.PAGE.read_text(encoding="utf-8") == requirements.written()


def test_the_page_names_modules_that_exist() -> None:
    rooms = [
        requirements.ROOT / "src" / "holdfast",
        *sorted((requirements.ROOT / "systems").iterdir()),
        requirements.ROOT,
    ]
    for id, (_, modules, _) in requirements.rows().items():
        for module in modules.replace("`", "").split(", "):
            assert any((room / module).exists() or (room / f"{module}.py").exists() for room in rooms), (
                id,
                module,
            )
