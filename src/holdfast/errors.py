"""Every error Holdfast raises, grouped by what the caller can do about it.

HoldfastError
├── DeclarationError              fix the declaration or the settings
│   ├── SettingsError               a path, a port, a setting
│   └── StoreFileError              a database file that is foreign, damaged, too new or locked
├── RequestError                  fix the request; the same request will always be refused
│   ├── InvalidRequest              ValidationException
│   │   └── EmptyKeyValue             a key attribute that is an empty string or binary
│   ├── MalformedRequest            SerializationException
│   ├── UnknownOperation            UnknownOperationException
│   ├── AccessRefused               the caller is not who it must be (signature, token, key)
│   ├── NotFound                    a table, index, stream, backup that is not there
│   ├── AlreadyThere                a table or backup that exists, or is busy
│   ├── IdempotencyMismatch         a client token reused with another request
│   └── IteratorExpired, TrimmedData  a place in a stream that can no longer be read
├── Conflict                      read again, decide again, retry
│   ├── ConditionFailed             a condition did not hold; carries the item when asked
│   ├── TransactionCancelled        one reason per action of the transaction
│   ├── TransactionConflict         another transaction was on the same item
│   └── LeaseLost                   another process took over this background work
├── RetryLater                    the same request may succeed after a pause
│   ├── Throttled                   ProvisionedThroughputExceeded, RequestLimitExceeded
│   ├── LimitExceeded               too many of something at once
│   ├── TransactionInProgress       the same client token is being worked on
│   ├── StoreBusy, StoreClosed      the engine itself cannot take it now
│   └── StoreFull, StoreIOError     the disk is full or failed; nothing of the request was kept
└── Defect                        report a bug
    └── RowsGone                    a statement of ours on rows that were dropped; the engine looks again

Where AWS has a text for a failure, `message` is that text to the letter and `code` is the service's name
for it; a hint of ours goes beside it, as a note (`add_note`). Data the caller may act on is in fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class HoldfastError(Exception):
    """The root. `code` is the name DynamoDB's protocol gives the failure."""

    code: ClassVar[str] = "InternalServerError"
    http_status: ClassVar[int] = 400

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class DeclarationError(HoldfastError):
    """Fix the declaration or the settings."""


class SettingsError(DeclarationError):
    """A path, an address, a port or a setting that cannot be used."""


class StoreFileError(DeclarationError):
    """A database file that is not ours, is damaged, or comes from another version."""


class RequestError(HoldfastError):
    """Fix the request: repeating it unchanged cannot help."""


class InvalidRequest(RequestError):
    code = "ValidationException"


class EmptyKeyValue(InvalidRequest):
    """Told apart because a transaction is refused for it as a whole, without a reason per action."""


class MalformedRequest(RequestError):
    code = "SerializationException"


class UnknownOperation(RequestError):
    code = "UnknownOperationException"


class AccessRefused(RequestError):
    """`code` varies with the reason: a missing token, an unknown key, a wrong signature."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]


class NotFound(RequestError):
    code = "ResourceNotFoundException"


class TableNotFound(NotFound):
    code = "TableNotFoundException"


class BackupNotFound(NotFound):
    code = "BackupNotFoundException"


class RecoveryUnavailable(NotFound):
    code = "PointInTimeRecoveryUnavailableException"


class AlreadyThere(RequestError):
    code = "ResourceInUseException"


class TableAlreadyExists(AlreadyThere):
    code = "TableAlreadyExistsException"


class TableInUse(AlreadyThere):
    code = "TableInUseException"


class BackupInUse(AlreadyThere):
    code = "BackupInUseException"


class InvalidRestoreTime(RequestError):
    code = "InvalidRestoreTimeException"


class IdempotencyMismatch(RequestError):
    code = "IdempotentParameterMismatchException"


class IteratorExpired(RequestError):
    code = "ExpiredIteratorException"


class TrimmedData(RequestError):
    code = "TrimmedDataAccessException"


class Conflict(HoldfastError):
    """Read again, decide again, retry."""


class ConditionFailed(Conflict):
    """`item` is the item as it was, when the operation asked for it (ReturnValuesOnConditionCheckFailure)."""

    code = "ConditionalCheckFailedException"

    def __init__(
        self, message: str = "The conditional request failed", *, item: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.item = item


class CancellationReason:
    """Why one action of a cancelled transaction did not pass; `code` is "None" for those that did."""

    __slots__ = ("code", "item", "message")

    def __init__(
        self, code: str = "None", message: str | None = None, item: Mapping[str, Any] | None = None
    ) -> None:
        self.code, self.message, self.item = code, message, item

    def __repr__(self) -> str:
        return f"CancellationReason({self.code!r}, {self.message!r}, {self.item!r})"


class TransactionCancelled(Conflict):
    """`reasons` has one entry per action, in the order of the request."""

    code = "TransactionCanceledException"

    def __init__(self, reasons: Sequence[CancellationReason]) -> None:
        codes = ", ".join(reason.code for reason in reasons)
        super().__init__(
            f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
        )
        self.reasons = tuple(reasons)


class TransactionConflict(Conflict):
    code = "TransactionConflictException"

    def __init__(self, message: str = "Transaction is ongoing for the item") -> None:
        super().__init__(message)


class LeaseLost(Conflict):
    """The lease ran out and was taken over: what was begun under it must not be written."""


class RetryLater(HoldfastError):
    """The same request may succeed after a pause."""


class Throttled(RetryLater):
    code = "ProvisionedThroughputExceededException"

    def __init__(
        self,
        message: str = (
            "The level of configured provisioned throughput for the table was exceeded. "
            "Consider increasing your provisioning level with the UpdateTable API."
        ),
    ) -> None:
        super().__init__(message)


class LimitExceeded(RetryLater):
    code = "LimitExceededException"


class TransactionInProgress(RetryLater):
    code = "TransactionInProgressException"


class StoreBusy(RetryLater):
    """Another process has held the file for longer than we are willing to wait."""

    code = "ServiceUnavailable"
    http_status = 503


class StoreClosed(RetryLater):
    """The engine is shutting down, or was closed before this was asked of it."""

    code = "ServiceUnavailable"
    http_status = 503


class StoreFull(RetryLater):
    """No room left on the disk: nothing of the request was kept. Free some space and repeat it."""

    code = "ServiceUnavailable"
    http_status = 503


class StoreIOError(RetryLater):
    """The disk or the memory failed under the file: the request is not acknowledged."""

    code = "ServiceUnavailable"
    http_status = 503


class Defect(HoldfastError):
    """A promise of ours is broken: please report it."""

    http_status = 500


class RowsGone(Defect):
    """Rows were named that another process has dropped since: who caches names must look again."""
