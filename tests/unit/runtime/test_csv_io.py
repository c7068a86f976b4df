"""CSV export and import in memory: attributes of every kind, invalid cells, duplicates, kept rows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast import Attr, Document, Entity, Key, Put, Stores, Table, attr, batch_put, open_memory_stores
from holdfast.core.errors import DeclarationError
from holdfast.model.entities import BatchPut
from holdfast.runtime import Importer, ImportReport, create_tables, export_csv, import_csv

parcels = Table("Parcels", "depot", "number", sort_type="N")


class Size(Document):
    height: Decimal
    width: int


class Parcel(Entity, table=parcels):
    depot: Attr[str] = attr()
    number: Attr[int] = attr()
    weight: Attr[Decimal] = attr(default=Decimal(0))
    fragile: Attr[bool] = attr(default=False)
    due: Attr[date | None] = attr(default=None)
    seen_at: Attr[datetime | None] = attr(default=None)
    label: Attr[bytes | None] = attr(default=None)
    size: Attr[Size | None] = attr(default=None)
    marks: Attr[list[str]] = attr(default_factory=list)
    zones: Attr[frozenset[int]] = attr(default_factory=frozenset)
    notes: Attr[dict[str, str]] = attr(default_factory=dict)

    of = Key(depot, number)


def put(rows: Sequence[Parcel]) -> BatchPut[Parcel]:
    return batch_put(Parcel.put(row) for row in rows)


IMPORTER = Importer(Parcel, put, aliases={"nr": "number"})

FULL = Parcel(
    depot="north; 1",
    number=7,
    weight=Decimal("1.250"),
    fragile=True,
    due=date(2026, 2, 1),
    seen_at=datetime(2026, 2, 1, 12, 30, 0, 125, tzinfo=UTC),
    label=b"\x00\xff,\n",
    size=Size(height=Decimal("2.5"), width=3),
    marks=["top", "a;b", ""],
    zones=frozenset({3, 1}),
    notes={"door": "blue, left\nside"},
)


def _import_file(file: Path) -> tuple[ImportReport, tuple[Parcel, ...]]:
    """Import the file into a new table; return the report and the rows in the table."""

    async def run() -> tuple[ImportReport, tuple[Parcel, ...]]:
        async with open_memory_stores() as stores:
            report = await import_csv(stores, IMPORTER, file)
            return report, (await stores.all(Parcel.scan(reason="all of it"))).items

    return asyncio.run(run())


def test_exports_and_imports_attributes_of_every_kind(tmp_path: Path) -> None:
    rows = (FULL, Parcel(depot="south", number=-2), Parcel(depot="south", number=10))

    async def export(stores: Stores) -> int:
        async with stores:
            await create_tables(stores, [parcels])
            await stores.run(put(rows))
            return await export_csv(stores, Parcel, tmp_path / "parcels.csv")

    assert asyncio.run(export(open_memory_stores())) == 3
    report, found = _import_file(tmp_path / "parcels.csv")

    assert (report.written, report.rejected) == (3, 0)
    assert sorted(found, key=lambda each: each.number) == sorted(rows, key=lambda each: each.number)


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        ("fragile", "perhaps", "fragile is 'perhaps': it should be a valid boolean"),
        ("due", "tomorrow", "due is 'tomorrow': it should be a valid date"),
        ("seenAt", "noon", "seenAt is 'noon': it should be an ISO 8601 time"),
        ("label", "%%%", "label is '%%%': it should be base64"),
        ("size", "large", "size is 'large': it should be a JSON object"),
        ("size", '"{""height"": 1}"', "size.width is empty, but Parcel requires it"),
        ("marks", '"[""a"""', "it begins with '[' but is not a JSON list"),
        ("zones", "1;two", "zones.1 is 'two': it should be a valid integer"),
        ("weight", "NaN", "weight is 'NaN': it should be a finite number"),
    ],
)
def test_reports_an_invalid_cell_by_its_column(tmp_path: Path, column: str, cell: str, expected: str) -> None:
    file = tmp_path / "parcels.csv"
    file.write_text(f"depot,nr,{column}\nnorth,1,{cell}\nnorth,2,\n", encoding="utf-8")

    report, found = _import_file(file)

    assert [each.number for each in found] == [2]
    assert report.rejects is not None
    assert expected in report.rejects.read_text(encoding="utf-8").replace('""', '"')


def test_composite_key_is_a_duplicate_only_if_both_parts_match(tmp_path: Path) -> None:
    file = tmp_path / "parcels.csv"
    file.write_text("depot,nr\nnorth,1\nnorth,2\nsouth,1\nnorth,01\n", encoding="utf-8")

    report, found = _import_file(file)

    assert (len(found), report.duplicates) == (3, 1)


def test_conditional_row_writes_keep_newer_items(tmp_path: Path) -> None:
    def newer(row: Parcel) -> Put[Parcel]:
        return Parcel.put(row).when(Parcel.depot.not_exists() | (Parcel.weight <= row.weight))

    file = tmp_path / "parcels.csv"
    file.write_text("depot,nr,weight\nnorth,1,5\nnorth,2,5\nnorth,3,-\nsouth,1,x\n", encoding="utf-8")
    importer = Importer(Parcel, put_each=newer, aliases={"nr": "number"})

    async def run() -> tuple[ImportReport, dict[int, Decimal]]:
        async with open_memory_stores() as stores:
            await create_tables(stores, [parcels])
            await stores.run(put([Parcel(depot="north", number=1, weight=Decimal(9))]))
            report = await import_csv(stores, importer, file)
            found = await stores.all(Parcel.scan(reason="all of it"))
            return report, {each.number: each.weight for each in found}

    report, weights = asyncio.run(run())
    assert (report.rows, report.kept, report.rejected) == (4, 1, report.rows - report.kept - report.written)
    assert weights[1] == 9 and weights[2] == 5


def test_importer_has_exactly_one_way_to_write() -> None:
    """An importer with neither or both of `put` and `put_each` is refused."""
    with pytest.raises(DeclarationError, match=r"expected either put \(batches\) or put_each"):
        Importer(Parcel)
    with pytest.raises(DeclarationError, match=r"expected either put \(batches\) or put_each"):
        Importer(Parcel, put, put_each=Parcel.put)
