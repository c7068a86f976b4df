"""Error labels: every class has one, none ever changes, and each consumer stores or sends the label."""

from __future__ import annotations

import ast
import importlib
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from fastapi import Request

from holdfast.core.errors import (
    Conflict,
    ExternalServiceFailed,
    ExternalServiceRefused,
    HoldfastError,
    RequestRefused,
    error_label,
)
from holdfast.core.logs import setup_logs
from holdfast.flows import Retry
from holdfast.flows.states_language import _build_retry
from holdfast.flows.transition import format_error
from holdfast.guarantees.idempotency.execution import get_reason
from holdfast.guarantees.messaging.relay import _format_reason
from holdfast.reports import examples
from holdfast.web.problems import build_error_response

ROOT = Path(__file__).parents[3]
FOLDERS = (ROOT / "src", ROOT / "systems")

# Each label with the label of its parent class. Labels are in stored records and in what clients have
# programmed against: add new ones, and never change or remove one.
LABELS = {
    "HoldfastError": None,
    "DeclarationError": "HoldfastError",
    "SettingsError": "DeclarationError",
    "StoreFileError": "DeclarationError",
    "DataDamaged": "StoreFileError",
    "SchemaMismatch": "DeclarationError",
    "ItemUnreadable": "DeclarationError",
    "MessageUnreadable": "DeclarationError",
    "StepMistaken": "DeclarationError",
    "ObjectDamaged": "DeclarationError",
    "KeyUnavailable": "DeclarationError",
    "RequestError": "HoldfastError",
    "InvalidRequest": "RequestError",
    "InvalidArgument": "InvalidRequest",
    "EmptyKeyValue": "InvalidRequest",
    "MalformedRequest": "RequestError",
    "UnknownOperation": "RequestError",
    "AccessRefused": "RequestError",
    "CallerRefused": "AccessRefused",
    "TokenRefused": "CallerRefused",
    "CallerForbidden": "CallerRefused",
    "AnswerRefused": "CallerRefused",
    "TargetRefused": "RequestError",
    "RequestRefused": "RequestError",
    "PartyRefused": "RequestRefused",
    "ComponentRefused": "RequestError",
    "StoresMixed": "RequestError",
    "NotFound": "RequestError",
    "SecretMissing": "NotFound",
    "ObjectHeld": "RequestError",
    "TableNotFound": "NotFound",
    "BackupNotFound": "NotFound",
    "RecoveryUnavailable": "NotFound",
    "AlreadyThere": "RequestError",
    "TableAlreadyExists": "AlreadyThere",
    "TableInUse": "AlreadyThere",
    "BackupInUse": "AlreadyThere",
    "RowAlreadyThere": "AlreadyThere",
    "InvalidRestoreTime": "RequestError",
    "IdempotencyMismatch": "RequestError",
    "IteratorExpired": "RequestError",
    "TrimmedData": "RequestError",
    "Conflict": "HoldfastError",
    "ConditionFailed": "Conflict",
    "TransactionCancelled": "Conflict",
    "TransactionConflict": "Conflict",
    "StandsElsewhere": "Conflict",
    "NotHeld": "StandsElsewhere",
    "NotAwaited": "StandsElsewhere",
    "AnswerTooLate": "NotAwaited",
    "NotCancellable": "StandsElsewhere",
    "LeaseLost": "Conflict",
    "ReceiptLost": "Conflict",
    "RetryLater": "HoldfastError",
    "InProgress": "RetryLater",
    "CircuitOpen": "RetryLater",
    "RateLimited": "RetryLater",
    "PartyFailed": "RetryLater",
    "TokenKeysUnreachable": "RetryLater",
    "SendIncomplete": "RetryLater",
    "Throttled": "RetryLater",
    "LimitExceeded": "RetryLater",
    "TransactionInProgress": "RetryLater",
    "StoreUnavailable": "RetryLater",
    "StoreBusy": "StoreUnavailable",
    "StoreClosed": "StoreUnavailable",
    "StatementTimedOut": "StoreUnavailable",
    "StoreUnreachable": "StoreUnavailable",
    "StoreFailed": "RetryLater",
    "CacheUnavailable": "RetryLater",
    "OutcomeUnknown": "RetryLater",
    "StoreFull": "StoreUnavailable",
    "StoreIOError": "StoreUnavailable",
    "Defect": "HoldfastError",
    "RowsGone": "Defect",
    "Overtaken": "Conflict",
    "UnplacedRefusal": "InvalidRequest",
    "AttachmentRefused": "RequestError",
    "FhirRefused": "RequestError",
    "StageFailed": "RequestRefused",
    "Withdrawn": "PartyFailed",
    "TooManyRequests": "PartyFailed",
    "ConnectionGone": "NotFound",
    "DocumentRefused": "InvalidRequest",
    "DocumentUnknown": "DocumentRefused",
    "DocumentEmpty": "DocumentRefused",
    "DocumentEncrypted": "DocumentRefused",
    "DocumentDamaged": "DocumentRefused",
    "DocumentTooLong": "DocumentRefused",
    "DocumentTooLarge": "DocumentRefused",
    "DocumentScanned": "DocumentRefused",
    "OutcomeOpen": "PartyFailed",
    "BookingUnderWay": "Conflict",
    "MayNotDecide": "AccessRefused",
    "ApprovalOver": "Conflict",
    "PolicyChanged": "Conflict",
    "RuleChanged": "Conflict",
    "EmployeeChanged": "Conflict",
    "EmployeeExists": "Conflict",
    "InvalidScim": "InvalidRequest",
    "Unresolved": "HoldfastError",
    "CalledWrongly": "SettingsError",
}


@dataclass(frozen=True)
class ErrorClass:
    """One error class as its source declares it. `label` is None where the source states none."""

    module: str
    name: str
    parent: str
    label: str | None


@cache
def collect_error_classes() -> dict[str, ErrorClass]:
    """Return every subclass of HoldfastError in the library and the systems, by class name."""
    classes = list(_iter_classes())
    found: dict[str, ErrorClass] = {}
    while True:
        known = {"HoldfastError", *found}
        new = {each.name: each for each in classes if each.parent in known and each.name not in found}
        if not new:
            return found
        found |= new


def _iter_classes() -> Iterator[ErrorClass]:
    """Yield every class of the source files once per base class, with the label its source declares."""
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*.py")):
            module = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "class " in text else ():
                if isinstance(node, ast.ClassDef):
                    labels = [ast.literal_eval(each.value) for each in node.keywords if each.arg == "label"]
                    for base in node.bases:
                        parent = ast.unparse(base).rpartition(".")[2]
                        yield ErrorClass(module, node.name, parent, next(iter(labels), None))


def test_every_error_class_declares_a_label() -> None:
    assert [each.name for each in collect_error_classes().values() if each.label is None] == []


def test_labels_match_the_stored_list() -> None:
    errors = collect_error_classes().values()
    label_of = {"HoldfastError": "HoldfastError"} | {each.name: each.label for each in errors}
    found: dict[str | None, str | None] = {"HoldfastError": None}
    found |= {each.label: label_of[each.parent] for each in errors}

    assert found == LABELS


def test_no_two_classes_share_a_label() -> None:
    labels = [each.label for each in collect_error_classes().values()]

    assert sorted(labels, key=str) == sorted(set(labels), key=str)


def test_every_class_has_the_label_in_its_source() -> None:
    declared = collect_error_classes().values()
    kinds = {each: getattr(importlib.import_module(each.module), each.name) for each in declared}

    assert [each for each, kind in kinds.items() if not issubclass(kind, HoldfastError)] == []
    assert [each for each, kind in kinds.items() if error_label(kind) != each.label] == []


def test_no_struct_is_tagged_with_its_class_name() -> None:
    """msgspec's `tag=True` writes the class name, which changes when the class is renamed."""
    tagged = [
        f"{path.name}:{node.lineno}"
        for folder in FOLDERS
        for path in folder.rglob("*.py")
        if "tag=True" in path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "tag"
        if isinstance(node.value, ast.Constant) and node.value.value is True
    ]

    assert tagged == []


# --- labels that survive a renamed class --------------------------------------------------------------------


class Renamed(Conflict, label="Former"):
    """A class whose label is its former name."""


class RenamedRefusal(ExternalServiceRefused, label="FormerRefusal"):
    """A refusal class whose label is its former name, and whose code is reported too."""


class Unlabelled(ExternalServiceFailed):
    """A class of a system outside this repository."""


def test_label_comes_from_the_error_or_its_class() -> None:
    assert error_label(Renamed("x")) == error_label(Renamed) == "Former"


def test_a_label_is_not_inherited() -> None:
    assert error_label(Unlabelled) == "Unlabelled"


def test_a_foreign_error_is_named_by_its_class() -> None:
    assert error_label(TimeoutError()) == error_label(TimeoutError) == "TimeoutError"


def test_an_idempotency_record_keeps_the_label() -> None:
    assert get_reason(Renamed("secret")) == "Former"
    assert get_reason(RenamedRefusal("no-seat", "secret")) == "FormerRefusal (no-seat)"
    assert get_reason(RequestRefused("Why", "secret")) == "RequestRefused (Why)"


def test_a_flow_and_an_outbox_keep_the_label_with_the_message() -> None:
    assert format_error(Renamed("it moved")) == "Former: it moved"
    assert _format_reason(Renamed("it moved")) == "Former: it moved"


def test_step_functions_receive_the_label() -> None:
    rule = Retry((Renamed, TimeoutError), max_attempts=2)

    assert _build_retry(rule)["ErrorEquals"] == ["Former", "TimeoutError"]


def test_report_contains_the_label() -> None:
    assert examples.format_error(Renamed("it moved")) == "Former: it moved"


def test_a_problem_has_the_label_as_its_type_and_title() -> None:
    request = Request({"type": "http", "method": "GET", "path": "/", "headers": []})
    problem = json.loads(bytes(build_error_response(request, Renamed("it moved")).body))

    assert (problem["type"], problem["title"]) == ("urn:holdfast:error:Former", "Former")


def test_a_log_line_has_the_label_as_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    handler = setup_logs(sys.stderr, log_format="json")
    try:
        logging.getLogger("holdfast.tests").error("failed", exc_info=Renamed("it moved"))
    finally:
        logging.getLogger().removeHandler(handler)

    assert json.loads(capsys.readouterr().err)["error"] == "Former"
