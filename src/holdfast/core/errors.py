"""Every error Holdfast raises, grouped by what the caller can do about it.

HoldfastError
├── DeclarationError              fix the declaration or the settings
│   ├── SettingsError               invalid path, address, port or setting
│   ├── StoreFileError              a database file that is foreign, damaged, too new or locked
│   │   └── DataDamaged             an item or a page that does not match its checksum
│   ├── SchemaMismatch              a SQL schema that is newer than this code, or lacks what it needs
│   ├── ItemUnreadable              an item that does not match its entity's declaration
│   ├── MessageUnreadable           a message that does not match its queue's declaration
│   ├── InvalidTransition           a flow step returned an undeclared state or an invalid write
│   ├── ObjectDamaged               an object whose bytes changed, or that cannot be decrypted
│   └── KeyUnavailable              an encryption key that is missing or refused
├── RequestError                  fix the request; the same request will always be refused
│   ├── InvalidRequest              ValidationException
│   │   └── EmptyKeyValue             a key attribute that is an empty string or binary
│   ├── MalformedRequest            SerializationException
│   ├── UnknownOperation            UnknownOperationException
│   ├── AccessRefused               invalid or missing credentials (signature, token, key)
│   │   └── CallerRefused             a client of this service that does not authenticate
│   │       ├── TokenRefused            its bearer token is missing, forged, expired, or for another audience
│   │       ├── CallerForbidden         it is authenticated, but not authorised for this
│   │       └── WaitTokenRefused        it answers a flow's wait with a wrong token
│   ├── ComponentRefused            a component ran a pattern that it does not declare
│   ├── CrossStoreTransaction       one transaction over several stores
│   ├── TargetRefused               a webhook address that is never called
│   ├── RequestRefused              a service refused it for a reason that has no class here
│   │   └── ExternalServiceRefused    an external service refused an effect for good; it will never be done
│   ├── NotFound                    a missing table, index, stream, backup, queue, object or secret
│   │   └── SecretMissing             a secret that is not set yet: the operator's to fix, not the client's
│   ├── AlreadyExists               a table, backup, queue or object that exists, or is busy
│   │   └── RowAlreadyExists          a SQL row whose key is taken; it names the constraint
│   ├── ObjectHeld                  an object under a legal hold, which must not be deleted
│   ├── IdempotencyMismatch         a client token reused with another request
│   └── IteratorExpired, TrimmedData  a stream position that can no longer be read
├── Conflict                      read again, decide again, retry
│   ├── ConditionFailed             a condition did not hold; carries the item when asked
│   ├── TransactionCancelled        one reason per action of the transaction
│   ├── TransactionConflict         another transaction was on the same item
│   ├── StateMismatch               the item is in another state than this needs; `state` names it
│   │   ├── NotPending                a delayed action that is being executed, executed, cancelled or refused
│   │   ├── NotWaiting                a flow that does not wait for this answer, or no longer does
│   │   │   └── DeadlinePassed          it waited, and its deadline has passed
│   │   └── NotCancellable            a flow that is too far along to be cancelled, or has ended
│   ├── LeaseLost                   another process took over this work: discard what was started
│   └── ReceiptLost                 the message was given to another receiver, or was deleted
├── RetryLater                    the same request may succeed after a pause
│   ├── Throttled                   ProvisionedThroughputExceeded, RequestLimitExceeded
│   ├── LimitExceeded               too many of something at once
│   ├── TransactionInProgress       a request with the same client token is running
│   ├── InProgress                  another worker is doing the same work
│   ├── CircuitOpen, RateLimited    a guarantee holds the call back; it says for how long
│   ├── ExternalServiceFailed       an external service failed, or gave no answer
│   ├── TokenKeysUnreachable        the keys that verify tokens cannot be fetched
│   ├── SendIncomplete              some messages of a batch were not accepted; it says which
│   ├── StoreUnavailable            the store cannot take the request now
│   │   ├── StoreBusy, StoreClosed    the engine is held by another process, or is shutting down
│   │   ├── StatementTimedOut         a SQL statement ran or waited for a lock too long; it was rolled back
│   │   ├── StoreUnreachable          no connection to the service, or no answer to a read
│   │   └── StoreFull, StoreIOError   the disk is full or failed; nothing of the request was kept
│   ├── StoreFailed                 the service answered that it failed (5xx)
│   ├── CacheUnavailable            the cache gives no answer: continue without it
│   └── OutcomeUnknown              a write was sent and no answer came: read before repeating it
└── InternalError                 report a bug
    └── RowsDropped                 a statement on rows that another process dropped; the engine retries

Where AWS has a text for a failure, `message` is exactly that text and `code` is the service's name for it;
our own hint is added as a note (`add_note`). Data the caller may act on is in fields. `label` names the class
in stored records, responses, metrics and logs: it stays when a class is renamed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Self

__all__ = [
    "AccessRefused",
    "AlreadyExists",
    "BackupInUse",
    "BackupNotFound",
    "CacheUnavailable",
    "CallerForbidden",
    "CallerRefused",
    "CancellationReason",
    "CircuitOpen",
    "ComponentRefused",
    "ConditionFailed",
    "Conflict",
    "CrossStoreTransaction",
    "DataDamaged",
    "DeadlinePassed",
    "DeclarationError",
    "EmptyKeyValue",
    "ExternalServiceFailed",
    "ExternalServiceRefused",
    "HoldfastError",
    "IdempotencyMismatch",
    "InProgress",
    "InternalError",
    "InvalidArgument",
    "InvalidRequest",
    "InvalidRestoreTime",
    "InvalidTransition",
    "ItemUnreadable",
    "IteratorExpired",
    "KeyUnavailable",
    "LeaseLost",
    "LimitExceeded",
    "MalformedRequest",
    "MessageUnreadable",
    "NotCancellable",
    "NotFound",
    "NotPending",
    "NotWaiting",
    "ObjectDamaged",
    "ObjectHeld",
    "OutcomeUnknown",
    "RateLimited",
    "ReceiptLost",
    "RecoveryUnavailable",
    "RequestError",
    "RequestRefused",
    "RetryLater",
    "RowAlreadyExists",
    "RowsDropped",
    "SchemaMismatch",
    "SecretMissing",
    "SendIncomplete",
    "SettingsError",
    "StateMismatch",
    "StatementTimedOut",
    "StoreBusy",
    "StoreClosed",
    "StoreFailed",
    "StoreFileError",
    "StoreFull",
    "StoreIOError",
    "StoreUnavailable",
    "StoreUnreachable",
    "TableAlreadyExists",
    "TableInUse",
    "TableNotFound",
    "TargetRefused",
    "Throttled",
    "TokenKeysUnreachable",
    "TokenRefused",
    "TransactionCancelled",
    "TransactionConflict",
    "TransactionInProgress",
    "TrimmedData",
    "UnknownOperation",
    "WaitTokenRefused",
    "error_label",
    "format_message",
]

MAX_NAMES_SHOWN: Final = 5  # in a message


class HoldfastError(Exception):
    """Base of all errors. `code` is the service's name for the failure, `label` the name we store and send.

    `code` is the one that the service gave: S3's `NoSuchBucket`, PostgreSQL's SQLSTATE, Redis' `OOM`. Without
    such an answer it is DynamoDB's name for the class of failure.
    """

    label: ClassVar[str] = "HoldfastError"
    code: str = "InternalServerError"
    http_status: ClassVar[int] = 400
    # True if only the operator can fix it, although its class is one that a client can fix.
    is_for_operator: bool = False

    def __init_subclass__(cls, *, label: str | None = None) -> None:
        """Set the label. It is never inherited: without one of its own, a class is labelled with its name."""
        super().__init_subclass__()
        cls.label = label or cls.__name__

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def with_code(self, code: str) -> Self:
        """Return this error with the code that the service gave; an empty one changes nothing."""
        if code:
            self.code = code
        return self


def error_label(error: BaseException | type[BaseException]) -> str:
    """Return the name to store or send: the label of a Holdfast error, the class name of any other."""
    kind = error if isinstance(error, type) else type(error)
    return kind.label if issubclass(kind, HoldfastError) else kind.__name__


def format_message(error: BaseException) -> str:
    """Return the error's message and its notes, with a full stop before a note: AWS's texts have none."""
    message = str(error)
    notes: list[str] = getattr(error, "__notes__", [])
    if notes and message and not message.endswith((".", ":", ";", "!", "?")):
        message += "."
    return " ".join([message, *notes])


class DeclarationError(HoldfastError, label="DeclarationError"):
    """Fix the declaration or the settings."""


class SettingsError(DeclarationError, label="SettingsError"):
    """A path, an address, a port or a setting is invalid."""


class StoreFileError(DeclarationError, label="StoreFileError"):
    """A database file is not ours, is damaged, or comes from another version."""


class DataDamaged(StoreFileError, label="DataDamaged"):
    """Stored data does not match its checksum, so it was not returned. Other data is served.

    `table` and `key` name the damaged item, if it is known.
    """

    def __init__(
        self, message: str, *, table: str | None = None, key: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.table, self.key = table, key


class SchemaMismatch(DeclarationError, label="SchemaMismatch"):
    """A SQL schema does not match this code. `current` is the revision it has, None if it has none yet."""

    def __init__(self, schema: str, current: str | None, message: str) -> None:
        super().__init__(message)
        self.schema, self.current = schema, current


class ItemUnreadable(DeclarationError, label="ItemUnreadable"):
    """An item was written under another declaration. `key` names it; `reason` says which attribute and
    why.
    """

    def __init__(self, table: str, key: Mapping[str, Any], reason: str) -> None:
        super().__init__(
            f"The item {dict(key)} of {table} does not match its declaration: {reason}. Give the attribute a "
            "default or a wider type, or fix the item."
        )
        self.table, self.key, self.reason = table, key, reason


class MessageUnreadable(DeclarationError, label="MessageUnreadable"):
    """A message was sent under another declaration, or by another program. `id` names it."""

    def __init__(self, queue: str, id: str, reason: str) -> None:
        super().__init__(
            f"The message {id} of {queue} does not match its declaration: {reason}. It goes to the "
            "dead-letter queue; fix the declaration and redrive it, or remove it."
        )
        self.queue, self.id, self.reason = queue, id, reason


class InvalidTransition(DeclarationError, label="StepMistaken"):
    """A flow step returned a state that it does not declare, or an invalid write. Nothing was written."""


class ObjectDamaged(DeclarationError, label="ObjectDamaged"):
    """The bytes are not those that were put: changed, cut off, or encrypted for another key."""

    def __init__(self, bucket: str, key: str, reason: str) -> None:
        super().__init__(
            f"The object {key} in {bucket} is damaged: {reason}. Restore it from a copy, or put it again."
        )
        self.bucket, self.key, self.reason = bucket, key, reason


class KeyUnavailable(DeclarationError, label="KeyUnavailable"):
    """An encryption key is not in the key file, or the key service refuses it."""


class RequestError(HoldfastError, label="RequestError"):
    """Fix the request: repeating it unchanged does not help."""


class InvalidRequest(RequestError, label="InvalidRequest"):
    """The request breaks a rule of the store; `message` is the service's own text where it has one."""

    code = "ValidationException"


class InvalidArgument(InvalidRequest, label="InvalidArgument"):
    """An argument of a command is invalid, such as the path of a file that cannot be read. The command exits
    with 2.
    """


class EmptyKeyValue(InvalidRequest, label="EmptyKeyValue"):
    """A key value is empty. Its own class because it refuses a whole transaction, without a reason per
    action.
    """


class MalformedRequest(RequestError, label="MalformedRequest"):
    """The request is not well-formed: its JSON or the type of a member is wrong."""

    code = "SerializationException"


class UnknownOperation(RequestError, label="UnknownOperation"):
    """The operation is unknown, or Holdfast does not serve it."""

    code = "UnknownOperationException"


class AccessRefused(RequestError, label="AccessRefused"):
    """Access was refused. `code` varies with the reason: a missing token, an unknown key, a wrong
    signature.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class CallerRefused(AccessRefused, label="CallerRefused"):
    """A client of this service did not authenticate. Any other `AccessRefused` concerns a request to another
    service.
    """

    http_status = 401


class TokenRefused(CallerRefused, label="TokenRefused"):
    """A bearer token is missing or invalid. `code` says why; the token itself is never quoted.

    `challenge` is the value of `WWW-Authenticate` (RFC 6750).
    """

    code = "TokenRefused"

    def __init__(self, code: str, message: str, *, challenge: str = 'Bearer error="invalid_token"') -> None:
        super().__init__(code, message)
        self.challenge = challenge


class CallerForbidden(CallerRefused, label="CallerForbidden"):
    """The caller is authenticated, but its token does not allow this. `scopes` are those that would be
    needed.
    """

    code = "InsufficientScope"
    http_status = 403

    def __init__(self, scopes: Sequence[str]) -> None:
        needed = " ".join(scopes)
        super().__init__(
            "InsufficientScope", f"This needs the scope {needed}: ask the issuer for a token that has it."
        )
        self.scopes = tuple(scopes)
        self.challenge = f'Bearer error="insufficient_scope", scope="{needed}"'


class WaitTokenRefused(CallerRefused, label="AnswerRefused"):
    """The token that came with an answer is not the token of the flow's wait. The right token is never
    shown.
    """

    code = "AnswerRefused"
    http_status = 403


class TargetRefused(RequestError, label="TargetRefused"):
    """A client named an address that is never called. `reason` says why."""

    code = "TargetRefused"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"This address is not called: {reason}. Give one that is reachable from the public internet."
        )
        self.reason = reason


class RequestRefused(RequestError, label="RequestRefused"):
    """A service refused the request. `code` is its own name for a refusal that has no class here."""

    code = "BadRequest"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ExternalServiceRefused(RequestRefused, label="PartyRefused"):
    """An external service refused an effect for good: nothing was done, and a retry would be refused too.

    `code` is the service's own name for the refusal. A temporary refusal is
    `ExternalServiceFailed(may_be_done=False)`.
    """


class ComponentRefused(RequestError, label="ComponentRefused"):
    """A component ran a pattern that it does not declare. Declare it, or run it as another component."""

    code = "AccessDeniedException"
    http_status = 403

    def __init__(self, component: str, pattern: str | None, declared: Sequence[str]) -> None:
        what = f"the pattern {pattern}" if pattern else "an operation that no pattern made"
        super().__init__(
            f"The component {component} may not run {what}: "
            f"it declares {_join_first_few(declared) or 'no pattern'}. "
            "Add the pattern to the component, or run it as one that has it."
        )
        self.component, self.pattern = component, pattern


def _join_first_few(names: Sequence[str]) -> str:
    """Return the names separated by commas, at most five of them: `F1, F2, F3, F4, F5 and 37 more`."""
    shown, more = ", ".join(names[:MAX_NAMES_SHOWN]), len(names) - MAX_NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


class CrossStoreTransaction(RequestError, label="StoresMixed"):
    """One transaction has operations on several stores."""

    def __init__(self, stores: Sequence[str]) -> None:
        super().__init__(
            f"Invalid transaction: expected operations on one store, got {' and '.join(stores)}. "
            "Write the message that must follow into an outbox, in the same transaction as the state "
            "that it announces."
        )
        self.stores = tuple(stores)


class NotFound(RequestError, label="NotFound"):
    """A table, index, stream, backup, queue, object or secret does not exist."""

    code = "ResourceNotFoundException"


class SecretMissing(NotFound, label="SecretMissing"):
    """A secret is not set. It may be set at any time: a route that needs it asks the client to retry."""

    http_status = 503


class ObjectHeld(RequestError, label="ObjectHeld"):
    """The object is under a legal hold. Lift the hold first, if you may."""

    code = "AccessDenied"
    http_status = 403

    def __init__(self, bucket: str, key: str) -> None:
        super().__init__(
            f"The object {key} in {bucket} is under a legal hold: lift the hold before it is deleted."
        )
        self.bucket, self.key = bucket, key


class TableNotFound(NotFound, label="TableNotFound"):
    """The table does not exist."""

    code = "TableNotFoundException"


class BackupNotFound(NotFound, label="BackupNotFound"):
    """The backup does not exist."""

    code = "BackupNotFoundException"


class RecoveryUnavailable(NotFound, label="RecoveryUnavailable"):
    """Point-in-time recovery is off for the table."""

    code = "PointInTimeRecoveryUnavailableException"


class AlreadyExists(RequestError, label="AlreadyThere"):
    """A table, backup, queue or object with this name exists, or is busy."""

    code = "ResourceInUseException"


class TableAlreadyExists(AlreadyExists, label="TableAlreadyExists"):
    """The target table of a restore exists already."""

    code = "TableAlreadyExistsException"


class TableInUse(AlreadyExists, label="TableInUse"):
    """The table is being created, changed or deleted."""

    code = "TableInUseException"


class BackupInUse(AlreadyExists, label="BackupInUse"):
    """The backup is being created, restored or deleted."""

    code = "BackupInUseException"


class RowAlreadyExists(AlreadyExists, label="RowAlreadyThere"):
    """A SQL row whose key is taken. `constraint` is the unique constraint that refused it."""

    http_status = 409

    def __init__(self, message: str, *, constraint: str) -> None:
        super().__init__(message)
        self.constraint = constraint


class InvalidRestoreTime(RequestError, label="InvalidRestoreTime"):
    """The time is outside the times to which the table can be restored."""

    code = "InvalidRestoreTimeException"


class IdempotencyMismatch(RequestError, label="IdempotencyMismatch"):
    """A client token was reused with another request."""

    code = "IdempotentParameterMismatchException"


class IteratorExpired(RequestError, label="IteratorExpired"):
    """A shard iterator is too old: request a new one."""

    code = "ExpiredIteratorException"


class TrimmedData(RequestError, label="TrimmedData"):
    """The stream records at this position were deleted after their retention time."""

    code = "TrimmedDataAccessException"


class Conflict(HoldfastError, label="Conflict"):
    """Read again, decide again, retry."""


class ConditionFailed(Conflict, label="ConditionFailed"):
    """A condition did not hold. `item` is the current item, if the operation requested it.

    DynamoDB's parameter for that request is `ReturnValuesOnConditionCheckFailure`.
    """

    code = "ConditionalCheckFailedException"

    def __init__(
        self, message: str = "The conditional request failed", *, item: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.item = item


class CancellationReason:
    """The reason why one action of a cancelled transaction failed; `code` is "None" for those that did
    not.
    """

    __slots__ = ("code", "item", "message")

    def __init__(
        self, code: str = "None", message: str | None = None, item: Mapping[str, Any] | None = None
    ) -> None:
        self.code, self.message, self.item = code, message, item

    def __repr__(self) -> str:
        return f"CancellationReason({self.code!r}, {self.message!r}, {self.item!r})"


class TransactionCancelled(Conflict, label="TransactionCancelled"):
    """A transaction was cancelled. `reasons` has one entry per action, in the order of the request."""

    code = "TransactionCanceledException"

    def __init__(self, reasons: Sequence[CancellationReason]) -> None:
        codes = ", ".join(reason.code for reason in reasons)
        super().__init__(
            f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
        )
        self.reasons = tuple(reasons)


class TransactionConflict(Conflict, label="TransactionConflict"):
    """Another transaction is running on the same item."""

    code = "TransactionConflictException"

    def __init__(self, message: str = "Transaction is ongoing for the item") -> None:
        super().__init__(message)


class StateMismatch(Conflict, label="StandsElsewhere"):
    """The item is in another state than this operation needs. `state` names it."""

    http_status = 409

    def __init__(self, message: str, *, state: str) -> None:
        super().__init__(message)
        self.state = state


class NotPending(StateMismatch, label="NotHeld"):
    """The delayed action no longer waits. `state` is `executing`, `executed`, `cancelled`, `refused` or
    `gone`.
    """


class NotWaiting(StateMismatch, label="NotAwaited"):
    """A flow does not wait for this answer: another answer was quicker, or it never waited for one."""


class DeadlinePassed(NotWaiting, label="AnswerTooLate"):
    """The deadline of the wait has passed. `state` is where the flow went, or the wait it is about to
    leave.
    """


class NotCancellable(StateMismatch, label="NotCancellable"):
    """A flow can be cancelled from some states only."""


class LeaseLost(Conflict, label="LeaseLost"):
    """The lease ended and another process took it: discard the work that was started under it."""


class ReceiptLost(Conflict, label="ReceiptLost"):
    """The visibility timeout ended and the message went to another receiver, or was deleted: leave it
    alone.
    """

    code = "ReceiptHandleIsInvalid"


class RetryLater(HoldfastError, label="RetryLater"):
    """The same request may succeed after a pause; `retry_after_s` says how long, if that is known."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class InProgress(RetryLater, label="InProgress"):
    """Another worker has claimed the same work and its lease has not ended. Do not acknowledge; retry."""

    http_status = 409


class CircuitOpen(RetryLater, label="CircuitOpen"):
    """The breaker is open, or half open with its one probe under way."""

    code = "ServiceUnavailable"
    http_status = 503


class RateLimited(RetryLater, label="RateLimited"):
    """The window is full."""

    code = "TooManyRequests"
    http_status = 429


class ExternalServiceFailed(RetryLater, label="PartyFailed"):
    """An external service refused for now, failed, or gave no answer.

    `may_be_done` says that the effect may have happened.
    """

    code = "ServiceUnavailable"
    http_status = 503

    def __init__(self, message: str, *, may_be_done: bool, retry_after_s: float | None = None) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.may_be_done = may_be_done


class TokenKeysUnreachable(RetryLater, label="TokenKeysUnreachable"):
    """The issuer's keys cannot be fetched and none are cached: no token can be verified now."""

    code = "ServiceUnavailable"
    http_status = 503


class SendIncomplete(RetryLater, label="SendIncomplete"):
    """Some messages of a batch were not accepted: `unsent` are their indexes in it. The others are sent."""

    code = "ServiceUnavailable"
    http_status = 503

    def __init__(self, message: str, unsent: Sequence[int]) -> None:
        super().__init__(message)
        self.unsent = tuple(unsent)


class Throttled(RetryLater, label="Throttled"):
    """The table or the account has no capacity left for the request."""

    code = "ProvisionedThroughputExceededException"

    def __init__(
        self,
        message: str = (
            "The level of configured provisioned throughput for the table was exceeded. "
            "Consider increasing your provisioning level with the UpdateTable API."
        ),
    ) -> None:
        super().__init__(message)


class LimitExceeded(RetryLater, label="LimitExceeded"):
    """Too many resources or operations of one kind at once."""

    code = "LimitExceededException"


class TransactionInProgress(RetryLater, label="TransactionInProgress"):
    """A transaction with the same client token is running."""

    code = "TransactionInProgressException"


class StoreUnavailable(RetryLater, label="StoreUnavailable"):
    """The store cannot take the request now."""

    code = "ServiceUnavailable"
    http_status = 503


class StoreBusy(StoreUnavailable, label="StoreBusy"):
    """Another process has held the file for longer than the configured wait."""


class StoreClosed(StoreUnavailable, label="StoreClosed"):
    """The engine is shutting down, or was closed before this request."""


class StatementTimedOut(StoreUnavailable, label="StatementTimedOut"):
    """A SQL statement exceeded its timeout, or waited too long for a lock. It was rolled back."""


class StoreUnreachable(StoreUnavailable, label="StoreUnreachable"):
    """No connection to the service, or no answer to a read. Nothing was written."""


class StoreFailed(RetryLater, label="StoreFailed"):
    """The service answered that it failed, to a request that changes nothing."""

    http_status = 500


class CacheUnavailable(RetryLater, label="CacheUnavailable"):
    """The cache gives no answer, or refuses. Its content is available elsewhere: continue without it, or
    retry.
    """

    code = "ServiceUnavailable"
    http_status = 503


class OutcomeUnknown(RetryLater, label="OutcomeUnknown"):
    """A write was sent and its answer was lost: it may or may not be done.

    Unless `safe_to_repeat`, read before you repeat it, and look for what only this write leaves (a version,
    an owner, a token). `item` is the item as a repeat found it, if the operation requested it; `token` is the
    client token to repeat a transaction with.
    """

    code = "ServiceUnavailable"
    http_status = 503

    def __init__(
        self,
        message: str,
        *,
        safe_to_repeat: bool,
        item: Mapping[str, Any] | None = None,
        token: str | None = None,
    ) -> None:
        super().__init__(message)
        self.safe_to_repeat, self.item, self.token = safe_to_repeat, item, token


class StoreFull(StoreUnavailable, label="StoreFull"):
    """The disk is full: nothing of the request was kept. Free some space and repeat it."""


class StoreIOError(StoreUnavailable, label="StoreIOError"):
    """The disk or the memory failed under the file: the request is not acknowledged."""


class InternalError(HoldfastError, label="Defect"):
    """Holdfast broke one of its promises: please report it."""

    http_status = 500


class RowsDropped(InternalError, label="RowsGone"):
    """Another process dropped rows that a statement names: a cache of names must be refreshed."""
