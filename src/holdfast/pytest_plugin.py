"""The pytest fixture `holdfast_dynamodb`: boto3 on a fresh in-memory engine, for the duration of one test.

pytest loads this module by its entry point in every suite where Holdfast is installed. So it is outside
`holdfast.boto3` and imports nothing: only a test that uses the fixture needs boto3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.boto3 import BlockingTables


@pytest.fixture
def holdfast_dynamodb() -> Iterator[BlockingTables]:
    """Answer every boto3 client of DynamoDB and its streams in this process during the test; yield the
    engine.
    """
    from holdfast.boto3 import in_process

    with in_process() as tables:
        yield tables
