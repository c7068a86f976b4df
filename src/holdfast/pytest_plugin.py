"""The pytest fixture `holdfast_dynamodb`: boto3 on a fresh engine in memory, for the length of one test.

pytest loads this by its entry point in every suite that runs where Holdfast is installed, so it stands outside
`holdfast.boto3` and imports nothing: only a test that asks for the fixture pays for boto3, or needs it at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.boto3 import BlockingTables


@pytest.fixture
def holdfast_dynamodb() -> Iterator[BlockingTables]:
    """Every boto3 client of DynamoDB and its streams is answered in this process; yields the engine."""
    from holdfast.boto3 import in_process

    with in_process() as tables:
        yield tables
