"""Set-up of every test: no settings of the developer, no AWS account, and long runs only on request."""

from __future__ import annotations

import gc
import os
import signal
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from holdfast.cli.arguments.credentials import KEY_VARIABLE, SECRET_VARIABLE
from holdfast.config.settings import FILE_VARIABLE, get_variable_name, list_setting_names

TESTS = Path(__file__).parent
BROWSER_TESTS = TESTS / "console"
SOAK = os.environ.get("HOLDFAST_SOAK") == "1"

OURS = {get_variable_name(name) for name in list_setting_names()} | {
    FILE_VARIABLE,
    KEY_VARIABLE,
    SECRET_VARIABLE,
    "HOLDFAST_DEBUG",
}
# boto3 needs credentials and a region for signing; these reach no account.
AWS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
# No test leaves the machine. Without this, every HTTP client reads the machine's certificates, in 25 ms.
CERTIFICATES = {"SSL_CERT_FILE": str(Path(__file__).with_name("no_authority.pem"))}

# A shared machine stalls at times: benchmarks judge speed, property tests do not.
settings.register_profile(
    "holdfast", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("soak", parent=settings.get_profile("holdfast"), max_examples=2_000)
settings.load_profile("soak" if SOAK else "holdfast")


def pytest_configure() -> None:
    # Here and not in a fixture, so that session fixtures and the processes they start see it too.
    """Remove the developer's settings and AWS variables from the environment, and set test credentials."""
    for variable in [name for name in os.environ if name in OURS or name.startswith("AWS_")]:
        del os.environ[variable]
    os.environ.update(AWS | CERTIFICATES)
    # A shell starts background jobs with SIGINT ignored. The processes of tests would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A test that runs the type checker in another folder need not check the library again.
    os.environ.setdefault("MYPY_CACHE_DIR", str(TESTS.parent / ".mypy_cache" / "tests"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each process its share of the long tests first; skip the tests marked `soak` unless
    HOLDFAST_SOAK=1.
    """
    items[:] = _deal(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    if SOAK:
        return
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.skip(reason="long-running: use make soak"))


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at the collected tests again and again."""
    gc.freeze()


def _deal(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return the tests in an order of which each process gets an equal part, with long tests at its front.

    The tests of a file stay together, because they may share an expensive fixture (a tutorial followed, a
    site built); so do those of the console, because they share a browser.
    """
    by_file: dict[Path, list[pytest.Item]] = {}
    for item in items:
        together = BROWSER_TESTS if item.path.is_relative_to(BROWSER_TESTS) else item.path
        by_file.setdefault(together, []).append(item)
    long = [tests for path, tests in by_file.items() if _is_long(path)]
    rest = [item for path, tests in by_file.items() if not _is_long(path) for item in tests]
    dealt: list[pytest.Item] = []
    for number in range(processes):
        part = list(chain.from_iterable(long[number::processes]))
        size = (len(items) - len(dealt)) // (processes - number)
        missing = max(0, size - len(part))
        dealt += part + rest[:missing]
        rest = rest[missing:]
    return dealt


def _is_long(path: Path) -> bool:
    """True for the browser, documentation, repository, faults and whole systems."""
    folders = path.relative_to(TESTS).parts
    return (
        folders[0] in ("console", "docs", "repo")
        or "faults" in folders
        or path.stem in ("test_story", "test_up")
    )
