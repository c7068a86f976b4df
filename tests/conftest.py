"""Set-up of every test: no settings of the developer, no AWS account, and long runs only on request."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from holdfast.cli.arguments.credentials import KEY_VARIABLE, SECRET_VARIABLE
from holdfast.config.settings import FILE_VARIABLE, get_variable_name, list_setting_names

TESTS = Path(__file__).parent
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
    # A test that runs the type checker in another folder need not check the library again.
    os.environ.setdefault("MYPY_CACHE_DIR", str(TESTS.parent / ".mypy_cache" / "tests"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest tests first, and skip the tests marked `soak` unless HOLDFAST_SOAK=1."""
    items.sort(key=_get_rank)
    if SOAK:
        return
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.skip(reason="long-running: use make soak"))


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at the collected tests again and again."""
    gc.freeze()


def _get_rank(item: pytest.Item) -> int:
    """Return 0 for documentation and repository, 1 for faults and whole systems, 2 for others.

    With the longest tests first, the processes finish at about the same time. The tests of a page share an
    expensive fixture (a tutorial followed, a site built): at the front of its queue, a process keeps them.
    """
    folders = item.path.relative_to(TESTS).parts
    if folders[0] in ("docs", "repo"):
        return 0
    return 1 if "faults" in folders or item.path.stem in ("test_story", "test_up") else 2
