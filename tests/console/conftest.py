"""Fixtures of the browser tests: one Chromium, one console with sample data, and visitors of it.

    def test_shows_the_backlog_of_each_queue(visitor: Visitor) -> None:
        visitor.visit("/work")
        visitor.check("work")

A test fails for errors in the browser's console, failed and external requests, statuses of 400 and above
that it does not expect, and what `check` finds. All these tests run in one process, one after the other
(`tests/conftest.py` deals the folder like one file). They must not be `async`: the browser's event loop runs
in their thread.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from .site import ConsoleSite, serve_site
from .visitor import Visitor

HERE = Path(__file__).parent
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

NewVisitor = Callable[[ConsoleSite], Visitor]
"""Opens a browser that is not signed in at a console."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of this folder in one process also with `--dist loadgroup`."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.xdist_group("browser"))


# Of the package and not of the session: the browser's event loop would be in the way of async tests after it.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Start the machine's Chromium."""
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        pytest.skip(f"no browser: install Chromium ({' or '.join(CHROMIUMS)} on the PATH)")
    # As root, Chromium starts only without its sandbox.
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=arguments)
        try:
            yield started
        finally:
            started.close()


@pytest.fixture(scope="package")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    """Serve a demo console over the samples of every system, for all tests of the folder.

    A test that changes something uses records that no other test shows.
    """
    with serve_site(tmp_path_factory.mktemp("console"), console_edits="on") as served:
        yield served


@pytest.fixture
def new_visitor(browser: Browser) -> Iterator[NewVisitor]:
    """Return a function that opens another visitor, who is not signed in."""
    with ExitStack() as visitors:

        def open_visitor(site: ConsoleSite) -> Visitor:
            visitor = Visitor(browser, site.url)
            visitors.callback(visitor.close)
            return visitor

        yield open_visitor


@pytest.fixture
def visitor(site: ConsoleSite, new_visitor: NewVisitor) -> Visitor:
    """Return a visitor who is signed in to the demo console."""
    opened = new_visitor(site)
    opened.sign_in_to_demo()
    return opened
