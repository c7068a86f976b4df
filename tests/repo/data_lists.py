"""Lists of what is stored: tables, cursors, queues, objects, cached values, flows, documents, records."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from holdfast.flows import State, Step, Wait
from holdfast.model.cache import CachedValue, CacheOperation
from holdfast.model.entities import Entity, get_declaration
from holdfast.model.entities.cursors import encode_cursor
from holdfast.model.entities.declaration import KeyDeclaration
from holdfast.model.entities.key_templates import Template
from holdfast.model.entities.reads import PagedRead
from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.model.tables import Index, Table
from holdfast.operations.objects import BucketDefinition, ObjectInfo
from holdfast.operations.queues import QueueDefinition
from holdfast.runtime.folder_backups import Manifest
from holdfast.security.ciphers import KeyFile
from holdfast.stores.tables.embedded.records import BackupRecord, Job, StreamRecord, TableRecord
from tests.repo.code import find_declared, find_subclasses, is_ours, load_systems
from tests.repo.shapes import describe_schema

ENVIRONMENT: Final = "prod"
STORED_RECORDS: Final = {
    "table": TableRecord,
    "stream": StreamRecord,
    "backup": BackupRecord,
    "job": Job,
    "queue": QueueDefinition,
    "bucket": BucketDefinition,
    "object": ObjectInfo,
    "key file": KeyFile,
    "backup manifest": Manifest,
}


# --- tables -------------------------------------------------------------------------------------------------


def list_tables() -> Iterator[str]:
    """List each table with its keys and indexes, and the attributes of each kind of item."""
    for table in find_declared(Table):
        yield (
            f"{table.name}: named {table.physical_name(ENVIRONMENT)} in {ENVIRONMENT}, "
            f"{_describe_keys(table)}"
        )
        yield f"{table.name}: TTL {table.ttl}, stream {table.stream}, recovery {table.point_in_time_recovery}"
        yield from (f"{table.name}: {_describe_index(index)}" for index in table.indexes)
        for entity in filter(is_ours, table.entities):
            yield from (f"{table.name}: {line}" for line in _describe_item(entity))


def _describe_keys(place: Table | Index) -> str:
    sort = "" if place.sort is None else f" and {place.sort} ({place.sort_type})"
    return f"key {place.partition} ({place.partition_type}){sort}"


def _describe_index(index: Index) -> str:
    projected = " ".join((index.projection.kind, *index.projection.attributes))
    return f"{index.scope} index {index.name}, {_describe_keys(index)}, {projected}"


def _describe_item(entity: type[Entity]) -> Iterator[str]:
    """List the keys by their templates, and the attributes by their stored names."""
    declaration = get_declaration(entity)
    item = _describe_key(declaration.primary)
    for key in declaration.indexes:
        assert key.index is not None
        yield f"item {item} is in {key.index.name} as {_describe_key(key)}"
    for line in describe_schema(entity.model_json_schema(mode="serialization")):
        yield f"item {item} stores {line}"


def _describe_key(key: KeyDeclaration) -> str:
    return ", ".join(f"{name} = {_describe_template(template)}" for name, template in key.templates)


def _describe_template(template: Template) -> str:
    """Return the constants with the stored names of the attributes between them."""
    pieces = (
        each
        if isinstance(each, str)
        else f"{{{each.attribute.stored_name}}}"
        if each.function is None
        else "{…}"
        for each in template.pieces
    )
    return "".join(pieces)


def list_cursors() -> Iterator[str]:
    """List the cursor that each query returns after one fixed key.

    Clients keep cursors and send them back later.
    """
    for name, system in load_systems().items():
        for pattern in system.patterns:
            arguments = pattern.example_arguments
            # An example with a time in it differs tomorrow.
            if isinstance(arguments, tuple) and all(isinstance(each, str | int) for each in arguments):
                operation = pattern.build_example()
                if isinstance(operation, PagedRead):
                    yield f"{name} {pattern.id}: {encode_cursor({'key': 'k'}, operation._cursor_scope)}"


# --- queues, objects, cache ---------------------------------------------------------------------------------


def list_queues() -> Iterator[str]:
    """List each queue with its physical names and the members of its messages."""
    for queue in find_declared(Queue):
        names = [each.name for each in queue.definitions(ENVIRONMENT)]
        yield f"{queue.name}: named {', '.join(names)} in {ENVIRONMENT}, FIFO {queue.fifo}"
        schema = queue.message_type.model_json_schema(mode="serialization")
        yield from (f"{queue.name}: {line}" for line in describe_schema(schema))


def list_objects() -> Iterator[str]:
    """List each bucket with its names and the templates of its keys."""
    for bucket in find_declared(Bucket):
        key = bucket.physical_kms_key(ENVIRONMENT)
        yield f"{bucket.name}: encryption {bucket.encryption}, key {key}, legal holds {bucket.legal_holds}"
        for shelf in bucket.object_kinds:
            yield (
                f"{bucket.name}: {shelf.template} ({shelf.content_type}), lifetime {shelf.lifetime_days} days"
            )
    for system in load_systems().values():
        for environment in system.deployment.environments:
            for bucket in system.buckets:
                yield f"{bucket.name}: named {bucket.physical_name(environment)} in {environment}"


def list_cached_values() -> Iterator[str]:
    """List each template of cache keys with the members of its value."""
    for system in load_systems().values():
        for pattern in system.patterns:
            operation = pattern.build_example()
            if isinstance(operation, CacheOperation):
                template = operation.declaration.key_template.template
                yield template
                if isinstance(operation.declaration, CachedValue):
                    schema = operation.declaration.value_type.model_json_schema(mode="serialization")
                    yield from (f"{template}: {line}" for line in describe_schema(schema))


# --- flows --------------------------------------------------------------------------------------------------


def list_flows() -> Iterator[str]:
    """List each flow with its states, steps, waits and transitions, here and in Amazon States Language."""
    for name, system in load_systems().items():
        for flow in system.flows:
            start = f"{name} {flow.name}"
            yield (
                f"{start}: begins in {flow.initial_state}, queue {flow.step_queue.name}, outbox "
                f"{flow.outbox.name}"
            )
            for state in flow.states.values():
                yield from (f"{start}: {state.name} {line}" for line in _describe_state(state))
            for line in _describe_machine(flow.to_states_language()):
                yield f"{start}: States Language {line}"


def _describe_state(state: State) -> Iterator[str]:
    yield f"is shown as {state.shown_as}, leads to {', '.join(state.to) or 'nothing'}"
    match state.action:
        case Step() as step:
            yield f"does {step.name}"
        case Wait() as wait:
            yield f"waits for {', '.join(wait.answers)} as {state.action_name}"


def _describe_machine(machine: dict[str, Any]) -> Iterator[str]:
    for name, state in machine["States"].items():
        yield f"{name} is {' '.join(filter(None, (state['Type'], state.get('Resource'))))}"
        for rule in state.get("Retry", ()):
            yield f"{name} retries {', '.join(rule['ErrorEquals'])}"
        if "Error" in state:
            yield f"{name} fails with {state['Error']}"


# --- documents and enumerations -----------------------------------------------------------------------------


def list_documents() -> Iterator[str]:
    """List the members of every Pydantic model by their JSON names: what is parsed, sent or stored as JSON.

    The class is not listed: renaming it changes nothing outside. A Python name that differs from the JSON
    name follows in parentheses, because some documents are stored under Python names.
    """
    for model in find_subclasses(BaseModel):
        if model.model_fields:
            yield ", ".join(_describe_member(name, info) for name, info in model.model_fields.items())


def _describe_member(name: str, info: FieldInfo) -> str:
    written = info.serialization_alias or info.alias or name
    read = str(info.validation_alias or info.alias or name)
    others = [each for each in dict.fromkeys((name, read)) if each != written]
    return f"{written} ({', '.join(others)})" if others else written


def list_enumerations() -> Iterator[str]:
    """List the values of every enumeration. The class is not listed: renaming it changes nothing outside."""
    for kind in find_subclasses(enum.Enum):
        if values := [str(each.value) for each in kind]:
            yield ", ".join(values)


# --- embedded engines ---------------------------------------------------------------------------------------


def list_stored_records() -> Iterator[str]:
    """List the members of what the embedded engines store as JSON or MessagePack."""
    for name, kind in STORED_RECORDS.items():
        (schema,), definitions = msgspec.json.schema_components([kind])
        yield from (f"{name}: {line}" for line in describe_schema(schema, definitions))
    # The encryption of an object is bound to this JSON, whose members have the order of the fields.
    yield f"object: in the order {', '.join(each.encode_name for each in msgspec.structs.fields(ObjectInfo))}"
