"""One sentence for each term of the field, shown as a hint next to it."""

from __future__ import annotations

from typing import Final

GLOSSARY: Final = {
    "access pattern": "A named, typed read or write: the only way in which a system touches its stores.",
    "bucket": "A place for objects, such as documents, each found by its key.",
    "capacity unit": (
        "What DynamoDB bills: a read unit reads up to 4 KB strongly consistently, or 8 KB eventually; a "
        "write unit writes up to 1 KB."
    ),
    "component": "A part of the system, such as an API or a worker; it may run only the patterns it names.",
    "dead letters": "Messages that failed too often; they wait in a queue of their own to be sent again.",
    "entity": "A kind of item in a table, with typed attributes and a rule that makes its key.",
    "finding": "A remark of the design check, with what to do about it; `holdfast check` prints the same.",
    "flow": "A business process over an item: states, what each does or waits for, and where it leads.",
    "global secondary index": (
        "A copy of the table under another key, kept up to date by the store, so that a query finds items in "
        "another way."
    ),
    "lifetime": "When an item, message or object is removed by itself.",
    "local secondary index": "Another sort order within each partition of the same table.",
    "partition key": "The attribute that decides where an item is stored; equal ones are stored together.",
    "point-in-time recovery": "The table can be restored as it was at any second of the last 35 days.",
    "policy": "What the component may do at AWS: exactly what its patterns need, and nothing else.",
    "projection": "The attributes that an index copies; a query of the index sees no others.",
    "queue": "Messages that wait for a consumer, which deletes each after it was handled.",
    "rate": "How often the pattern runs, for each event that the system's load counts.",
    "role": "The database account of the component, with the privileges that its statements need.",
    "scan": "A read of a whole table or index, which costs as much as all of its items.",
    "schema": "A group of SQL tables that migrations create and change.",
    "sort key": "The attribute that orders the items of a partition.",
    "sparse index": "An index that holds only the items which have its key, so that it is small.",
    "stream": "The changes of a table's items, in order, for consumers to follow.",
    "TTL": "Time to live: the attribute with the second after which the store removes the item.",
}
