"""Copy of a live tables file to a new file, at one point in time, without disturbing its users.

Experiments on the copy leave the original unchanged.
"""

from __future__ import annotations

import os

from holdfast.stores.sqlite.file_copy import LiveFile, has_data
from holdfast.stores.tables.embedded.storage.schema import SCHEMA


def copy_tables(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> bool:
    """Copy the tables of a file to a new file. Return False if the source does not exist or is empty."""
    if not has_data(source):
        return False
    with LiveFile(source, SCHEMA) as file:
        file.freeze()
        file.copy_to(target)
    return True
