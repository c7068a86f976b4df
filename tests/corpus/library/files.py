"""Part of the corpus: encrypted objects with an open listing and a legal hold, and an interrupted import."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from holdfast import Attr, Bucket, Entity, Key, Stores, Table, attr, batch_put
from holdfast.model.entities import BatchPut
from holdfast.runtime import Importer, import_csv

from .process import Killed

OBJECTS: Final = 5
ROWS: Final = 12
# Fewer than all rows, so that the import is stopped after its first checkpoint.
STRETCH: Final = 5
CSV: Final = "imported.csv"

archive = Bucket("corpus-archive", legal_holds=True)
pages = archive.objects("pages/{book}/{number}.txt", content_type="text/plain", lifetime_days=30)
imported = Table("Imported", "number", purpose="Rows of a file")


class Row(Entity, table=imported):
    number: Attr[str] = attr()
    name: Attr[str] = attr()

    of = Key(number)


def put_rows(rows: Any) -> BatchPut[Row]:
    return batch_put([Row.put(row) for row in rows])


BUCKETS: Final = (archive,)
TABLES: Final = (imported,)


async def write(stores: Stores, folder: Path) -> dict[str, Any]:
    """Write objects and a half-done import, and return the cursor of a listing."""
    for number in range(OBJECTS):
        body = f"page {number}".encode() * 3
        await stores.run(pages.put(body, book="b-1", number=str(number), metadata={"by": "ada"}))
    await stores.run(pages.set_legal_hold(True, book="b-1", number="1"))
    listed = await stores.run(pages.list_objects(count=2, book="b-1"))
    await _import_and_die(stores, folder)
    return {"cursor": listed.cursor}


async def _import_and_die(stores: Stores, folder: Path) -> None:
    """Import a CSV file and stop in its second stretch, as a killed process does."""
    rows = [f"n-{number},name {number}" for number in range(ROWS)]
    rows[3] = "n-3"  # refused: a name is missing
    (folder / CSV).write_text("\n".join(["number,name", *rows]) + "\n")
    stretches = 0

    async def kill_in_the_second_stretch(_: Stores) -> None:
        nonlocal stretches
        stretches += 1
        if stretches == 2:
            raise Killed

    importer = Importer(Row, put_rows, check=kill_in_the_second_stretch)
    with patch("holdfast.runtime.csv_io.importer.CHECKPOINT_ROWS", STRETCH), suppress(Killed):
        await import_csv(stores, importer, folder / CSV)
