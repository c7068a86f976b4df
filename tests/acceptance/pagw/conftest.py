"""One gateway for all tests of a process, and one whose stages do not work: requests stay where they were accepted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.pagw.gateway import Gateway, Parties
from tests.acceptance.pagw.gateway import gateway as opened_gateway
from tests.acceptance.pagw.gateway import parties as opened_parties


@pytest.fixture(scope="package")
def parties() -> Iterator[Parties]:
    with opened_parties() as made:
        yield made


@pytest.fixture(scope="package")
def gateway(parties: Parties) -> Iterator[Gateway]:
    with opened_gateway(parties) as made:
        yield made


@pytest.fixture(scope="package")
def still(parties: Parties, gateway: Gateway) -> Iterator[Gateway]:
    """It accepts and works nothing off. Made inside the one that works, so that variables are restored in order."""
    with opened_gateway(parties, "api", "payer-callbacks", PAGW_ANSWER_WAIT_S="0") as made:
        yield made
