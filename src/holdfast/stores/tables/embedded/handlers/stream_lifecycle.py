"""Opening and closing of a table's stream, which is a range of the table's change log."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from holdfast.operations.tables import StreamView
from holdfast.stores.tables.embedded.records import StreamRecord, TableRecord
from holdfast.stores.tables.embedded.storage import streams
from holdfast.stores.tables.embedded.storage.writer import Writer

replace = msgspec.structs.replace


def open_stream(record: TableRecord, view: StreamView, writer: Writer) -> TableRecord:
    """Open a stream that begins with the next change.

    Return the table's new record, which the caller saves.
    """
    label = _format_label(writer.now)
    name = record.definition.name
    while streams.find(writer.connection, name, label) is not None:
        label = _format_label(datetime.fromisoformat(label + "+00:00").timestamp() + 0.001)
    first = writer.get_last_sequence(record.number) + 1
    streams.save(
        writer.connection,
        StreamRecord(name, label, record.number, record.definition, view, writer.now, first),
    )
    return replace(record, definition=replace(record.definition, stream_view=view), stream_label=label)


def _format_label(moment: float) -> str:
    """Return a stream label: the time in UTC with milliseconds."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]


def close_stream(record: TableRecord, writer: Writer) -> TableRecord:
    """Close the table's stream, if it is open, and return the table's new record, which the caller saves.

    The stream's records stay readable for a day; the table keeps the label of its latest stream.
    """
    label = record.stream_label
    stream = None if label is None else streams.find(writer.connection, record.definition.name, label)
    if stream is not None and stream.last_seq is None:
        last = writer.get_last_sequence(record.number)
        streams.save(writer.connection, replace(stream, last_seq=last, closed_at=writer.now))
    return replace(record, definition=replace(record.definition, stream_view=None))
