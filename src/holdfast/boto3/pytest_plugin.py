"""The pytest fixture `holdfast_dynamodb`: boto3 on a fresh engine in memory, for the length of one test.

pytest loads it by its entry point, in every suite that runs where Holdfast is installed.
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
