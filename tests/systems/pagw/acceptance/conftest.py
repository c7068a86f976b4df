"""Fixtures: a gateway with all stages, and an idle one that accepts requests and processes none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.systems.pagw.acceptance.gateway import (
    ExternalServices,
    Gateway,
    start_external_services,
    start_gateway,
)


@pytest.fixture(scope="package")
def external_services() -> Iterator[ExternalServices]:
    with start_external_services() as made:
        yield made


@pytest.fixture(scope="package")
def gateway(external_services: ExternalServices) -> Iterator[Gateway]:
    with start_gateway(external_services) as made:
        yield made


@pytest.fixture(scope="package")
def idle_gateway(external_services: ExternalServices, gateway: Gateway) -> Iterator[Gateway]:
    """Gateway that accepts requests and processes none.

    It starts inside the other gateway, so that environment variables are restored in order.
    """
    with start_gateway(external_services, "api", "payer-callbacks", PAGW_ANSWER_WAIT_S="0") as made:
        yield made
