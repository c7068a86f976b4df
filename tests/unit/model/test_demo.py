"""Demos: found by entry point or declared by the system, loaded when a host needs them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast import System
from holdfast.cli.extras import describe_missing_demo
from holdfast.core.errors import DeclarationError
from holdfast.model.demo import Demo, find_demo, find_working_demo


def write_distribution(folder: Path, points: str, *, name: str = "kiosk_demo", metadata: str = "") -> None:
    """Write an installed distribution with these entry points."""
    record = folder / f"{name}-1.dist-info"
    record.mkdir(exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{metadata}"
    (record / "METADATA").write_text(text, encoding="utf-8")
    (record / "entry_points.txt").write_text(points, encoding="utf-8")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on the import path."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def make_system(demo: Demo | None = None) -> System:
    return System("kiosk", "Sells tickets", demo=demo)


def test_finds_the_demo_registered_under_the_systems_name(installed: Path) -> None:
    write_distribution(installed, "[holdfast.demos]\nkiosk = kiosk_story:DEMO\nbooth = nowhere:DEMO\n")
    source = "from holdfast.model.demo import Demo\nDEMO = Demo(sandboxes={'bank': dict})\n"
    (installed / "kiosk_story.py").write_text(source, encoding="utf-8")

    assert find_demo(make_system()).sandboxes == {"bank": dict}


def test_a_declared_demo_wins_over_a_registered_one(installed: Path) -> None:
    write_distribution(installed, "[holdfast.demos]\nkiosk = nowhere:DEMO\n")
    own = Demo()

    assert find_demo(make_system(own)) is own


def test_a_system_without_a_demo_has_an_empty_one() -> None:
    found = find_demo(make_system())

    assert (found.sample, found.story, found.sandboxes, found.on_startup) == (None, None, {}, None)


def test_a_demo_that_fails_to_load_is_an_error_that_names_it(installed: Path) -> None:
    write_distribution(installed, "[holdfast.demos]\nkiosk = no_such_module:DEMO\n")

    with pytest.raises(DeclarationError, match=r"kiosk \(no_such_module:DEMO\) failed: ModuleNotFound"):
        find_demo(make_system())


def test_rejects_an_entry_point_that_is_not_a_demo(installed: Path) -> None:
    write_distribution(installed, "[holdfast.demos]\nkiosk = sys:path\n")

    with pytest.raises(DeclarationError, match=r"Invalid entry point kiosk \(sys:path\): expected a Demo"):
        find_demo(make_system())


def test_a_missing_demo_is_explained(installed: Path) -> None:
    assert describe_missing_demo(make_system(Demo())) == "its demo declares none."
    assert describe_missing_demo(make_system()) == (
        "no demo is registered for it in the entry point group `holdfast.demos`."
    )

    points = "[holdfast.systems]\nkiosk = kiosk.system:SYSTEM\n"
    write_distribution(installed, points, name="kiosk-app", metadata="Provides-Extra: demo\n")
    assert describe_missing_demo(make_system()) == (
        "its demo is not installed. Run pip install 'kiosk-app[demo]'."
    )


def test_a_host_continues_without_a_demo_that_fails_to_load(
    installed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_distribution(installed, "[holdfast.demos]\nkiosk = no_such_module:DEMO\n")

    assert find_working_demo(make_system()) == Demo()
    assert "Continuing without the demo of kiosk" in caplog.text


def test_the_first_of_two_distributions_wins(installed: Path) -> None:
    write_distribution(installed, "[holdfast.demos]\nkiosk = first_demo:DEMO\n", name="b_first")
    others = installed / "others"
    others.mkdir()
    write_distribution(others, "[holdfast.demos]\nkiosk = nowhere:DEMO\n", name="a_second")
    (installed / "first_demo.py").write_text(
        "from holdfast.model.demo import Demo\nDEMO = Demo()\n", encoding="utf-8"
    )
    sys.path.append(str(others))
    try:
        assert find_demo(make_system()) == Demo()
    finally:
        sys.path.remove(str(others))
