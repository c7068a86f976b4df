"""The story of the tables engine: an airline sells seats, and two passengers want the same one.

Everything is real: a file on disk, HTTP on loopback with boto3 as the client, a writer process
that is killed, a table restored to the second before a mistake. The units consumed are those that
DynamoDB bills.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.errors import ConditionFailed, HoldfastError
from holdfast.operations.expressions import Placeholders, parse_condition, parse_update
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables import (
    ConsumedCapacity,
    CreateTable,
    DescribeTable,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    Operation,
    PutItem,
    Query,
    RestoreTableToPointInTime,
    Scan,
    TableDefinition,
    UpdateContinuousBackups,
    UpdateItem,
)
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

SEATS: Final = 40
FLIGHT: Final = "EY11#2026-11-15"
# Amazon DynamoDB on demand, US East, since November 2024: USD per million request units.
PRICE_PER_MILLION_WRITES: Final = 0.625
PRICE_PER_MILLION_READS: Final = 0.125

_SEAT_IS_FREE: Final = parse_condition(
    "attribute_not_exists(passenger)", "ConditionExpression", Placeholders()
)
_DEFINITION: Final = TableDefinition(
    "Seats",
    (KeyAttribute("flight", "S"), KeyAttribute("seat", "S"), KeyAttribute("passenger", "S")),
    KeySchema("flight", "seat"),
    global_indexes=(IndexDefinition("by-passenger", KeySchema("passenger"), IndexProjection("ALL")),),
    billing_mode="PAY_PER_REQUEST",
    stream_view="NEW_AND_OLD_IMAGES",
)


def run_story(console: Console) -> None:
    """Run all steps on one file in a temporary folder and print what they cost."""
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        bill = _Bill()
        path = Path(folder) / "tables.db"
        with open_tables(path) as tables:
            _sell_seats(tables, bill, console)
            _query_over_http(tables, console)
        _kill_writer(path, console)
        with open_tables(path) as tables:
            _restore_to_before_mistake(tables, console)
        bill.print_total(console)


# --- the steps ----------------------------------------------------------------------------------------------


def _sell_seats(tables: EmbeddedTables, bill: _Bill, console: Console) -> None:
    """Create the table, fill it, and let two passengers take the same seat."""
    console.rule("Seats, in process")
    tables.run_blocking(CreateTable(_DEFINITION))
    tables.run_blocking(UpdateContinuousBackups("Seats", enabled=True))
    for number in range(1, SEATS + 1):
        bill.run(
            tables,
            PutItem("Seats", {"flight": FLIGHT, "seat": f"{number:02d}A", "price": 129}, capacity="TOTAL"),
        )
    console.print(f"{SEATS} seats of {FLIGHT} put into a durable table with an index and a stream.")
    for passenger in ("Amal", "Bo"):
        try:
            bill.run(tables, _build_seat_update("07A", passenger))
            console.print(f"{passenger} took 07A.")
        except ConditionFailed:
            console.print(f"{passenger} wanted 07A too and was refused: exactly one of them gets it.")
    page = bill.run(
        tables,
        Query("Seats", (KeyTest("passenger", "=", ("Amal",)),), index="by-passenger", capacity="TOTAL"),
    )
    console.print(f"The index by-passenger finds Amal in {[item['seat'] for item in page.items or []]}.")


def _build_seat_update(seat: str, passenger: str) -> UpdateItem:
    """Return the update that gives the seat to the passenger if it is free."""
    placeholders = Placeholders(values={":who": passenger})
    return UpdateItem(
        "Seats",
        {"flight": FLIGHT, "seat": seat},
        parse_update("SET passenger = :who", placeholders),
        _SEAT_IS_FREE,
        capacity="TOTAL",
    )


def _query_over_http(tables: EmbeddedTables, console: Console) -> None:
    """Serve the same tables over HTTP, then move a passenger and query with boto3."""
    console.rule("The same file over HTTP, with unmodified boto3")
    import boto3  # type: ignore[import, unused-ignore]

    from holdfast.wire.http.server import start_server

    with start_server(tables=tables) as url:
        client = boto3.client(
            "dynamodb",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="demo",
            aws_secret_access_key="demo",
        )
        client.transact_write_items(
            TransactItems=[
                _build_transact_update("07A", "REMOVE passenger", None),
                _build_transact_update("12A", "SET passenger = :who", "Amal"),
            ]
        )
        response = client.query(
            TableName="Seats",
            KeyConditionExpression="flight = :f",
            FilterExpression="attribute_exists(passenger)",
            ExpressionAttributeValues={":f": {"S": FLIGHT}},
            ReturnConsumedCapacity="TOTAL",
        )
        console.print(
            f"boto3 at {url}: Amal moved to {response['Items'][0]['seat']['S']} in one transaction;"
            f" the query read {response['ScannedCount']} items"
            f" for {response['ConsumedCapacity']['CapacityUnits']} units."
        )


def _build_transact_update(seat: str, update: str, passenger: str | None) -> dict[str, Any]:
    """Return the update of one seat in boto3's transaction form; `passenger` is the value of `:who`, if
    any.
    """
    values = {} if passenger is None else {"ExpressionAttributeValues": {":who": {"S": passenger}}}
    key = {"flight": {"S": FLIGHT}, "seat": {"S": seat}}
    return {"Update": {"TableName": "Seats", "Key": key, "UpdateExpression": update, **values}}


_WRITER_CODE: Final = """
import sys
from holdfast.operations.tables import PutItem
from holdfast.stores.tables.embedded import open_tables
tables = open_tables(sys.argv[1])
number = 0
while True:
    number += 1
    tables.run_blocking(PutItem("Seats", {"flight": "EY12#2026-11-15", "seat": f"{number:06d}"}))
    print(number, flush=True)
"""


def _kill_writer(path: Path, console: Console) -> None:
    """Kill a writing process and check that the file has every acknowledged write. Raise `HoldfastError` if
    not.
    """
    console.rule("A writer killed with SIGKILL")
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER_CODE, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for line in writer.stdout:
        if int(line) == SEATS:
            break
    writer.send_signal(signal.SIGKILL)
    acknowledged = max([SEATS, *(int(line) for line in writer.stdout if line.strip().isdigit())])
    writer.wait()
    with open_tables(path) as tables:
        page = tables.run_blocking(
            Query("Seats", (KeyTest("flight", "=", ("EY12#2026-11-15",)),), select="COUNT")
        )
    if page.count < acknowledged:
        raise HoldfastError(f"{acknowledged} writes were acknowledged but the file has only {page.count}")
    console.print(f"{acknowledged} writes were acknowledged before the kill; the file has {page.count}.")


def _restore_to_before_mistake(tables: EmbeddedTables, console: Console) -> None:
    """Set all prices to 0, restore the table to the moment before into a new one, and print its prices."""
    console.rule("The table restored to a moment ago")
    before = SYSTEM_CLOCK.now()
    for item in _scan_items(tables, "Seats"):
        tables.run_blocking(PutItem("Seats", {**item, "price": 0}))
    tables.run_blocking(RestoreTableToPointInTime("Seats", "SeatsBefore", before))
    _wait_until(lambda: tables.run_blocking(DescribeTable("SeatsBefore")).status == "ACTIVE")
    prices = {
        str(item.get("price")) for item in _scan_items(tables, "SeatsBefore") if item["flight"] == FLIGHT
    }
    console.print(
        f"All prices were set to 0; in the table restored to before, they are {', '.join(sorted(prices))}."
    )


def _scan_items(tables: EmbeddedTables, table: str) -> Iterator[dict[str, Any]]:
    """Yield every item of a table, page by page."""
    start = None
    while True:
        page = tables.run_blocking(Scan(table, start_key=start))
        yield from page.items or []
        start = page.last_key
        if start is None:
            return


def _wait_until(is_done: Callable[[], bool]) -> None:
    """Poll until the condition holds: the engine restores tables in the background."""
    while not is_done():
        time.sleep(0.01)


class _Bill:
    """The units that DynamoDB would bill for the operations run through it."""

    def __init__(self) -> None:
        self.read = self.write = 0.0

    def run(self, tables: EmbeddedTables, operation: Operation[Any]) -> Any:
        """Run the operation, add its units to the bill, and return its result."""
        result = tables.run_blocking(operation)
        consumed: ConsumedCapacity = result.capacity
        self.read += consumed.total.read
        self.write += consumed.total.write
        return result

    def print_total(self, console: Console) -> None:
        console.rule("What it cost")
        dollars = (self.write * PRICE_PER_MILLION_WRITES + self.read * PRICE_PER_MILLION_READS) / 1e6
        console.print(
            f"In process: {self.write:g} write units and {self.read:g} read units. Amazon DynamoDB would"
            f" bill {dollars * 100:.5f} US cents for them; here they are free."
        )
