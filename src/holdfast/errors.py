"""Every error Holdfast raises, grouped by what the caller can do about it.

HoldfastError
├── DeclarationError              fix the declaration or the settings
│   ├── SettingsError               a path, a port, a setting
│   ├── StoreFileError              a database file that is foreign, damaged, too new or locked
│   ├── SchemaMismatch              a schema of SQL that this code does not fit: newer than it, or not as it needs it
│   ├── ItemUnreadable              an item that its entity's declaration cannot read
│   ├── MessageUnreadable           a message that its queue's declaration cannot read
│   ├── StepMistaken                a step of a flow that leads where it may not, or gives what cannot be written
│   ├── ObjectDamaged               an object that is not what was put, or cannot be decrypted
│   └── KeyUnavailable              a key that something was encrypted with, and that is not to be had
├── RequestError                  fix the request; the same request will always be refused
│   ├── InvalidRequest              ValidationException
│   │   └── EmptyKeyValue             a key attribute that is an empty string or binary
│   ├── MalformedRequest            SerializationException
│   ├── UnknownOperation            UnknownOperationException
│   ├── AccessRefused               the caller is not who it must be (signature, token, key)
│   │   └── CallerRefused             a caller of ours that does not prove who it is, as of a webhook
│   │       ├── TokenRefused            its bearer token is missing, forged, expired, or for somebody else
│   │       ├── CallerForbidden         it is known, and may not do this
│   │       └── AnswerRefused           it answers the wait of a flow without the wait's token
│   ├── ComponentRefused            a component that runs a pattern it does not declare
│   ├── StoresMixed                 one transaction on several stores
│   ├── TargetRefused               an address that a caller wants to be called at, and that is never called
│   ├── RequestRefused              a service refused it for a reason that has no class here
│   │   └── PartyRefused              an outside party refused an effect for good: it is not done, and never will be
│   ├── NotFound                    a table, index, stream, backup, queue, object, secret that is not there
│   │   └── SecretMissing             a secret that nobody has set yet: for the operator, not for a caller
│   ├── AlreadyThere                a table, backup, queue or object that exists, or is busy
│   │   └── RowAlreadyThere           a row of SQL whose key is taken; it names the constraint
│   ├── ObjectHeld                  an object under a legal hold, which nobody may delete
│   ├── IdempotencyMismatch         a client token reused with another request
│   └── IteratorExpired, TrimmedData  a place in a stream that can no longer be read
├── Conflict                      read again, decide again, retry
│   ├── ConditionFailed             a condition did not hold; carries the item when asked
│   ├── TransactionCancelled        one reason per action of the transaction
│   ├── TransactionConflict         another transaction was on the same item
│   ├── StandsElsewhere             it is not where this could be done with it; it says where it stands
│   │   ├── NotHeld                   it does not wait in its hold queue any more: being done, done, cancelled, refused
│   │   ├── NotAwaited                a flow does not wait for this answer, or not any more
│   │   │   └── AnswerTooLate           it waited, and its deadline has passed
│   │   └── NotCancellable            a flow that is too far to be cancelled, or has ended
│   ├── LeaseLost                   another process took over this work: what was begun must not be written
│   └── ReceiptLost                 the message was given to another receiver, or is gone
├── RetryLater                    the same request may succeed after a pause
│   ├── Throttled                   ProvisionedThroughputExceeded, RequestLimitExceeded
│   ├── LimitExceeded               too many of something at once
│   ├── TransactionInProgress       the same client token is being worked on
│   ├── InProgress                  another worker is doing the very same
│   ├── CircuitOpen, RateLimited    a guarantee holds it back, and says for how long
│   ├── PartyFailed                 an outside party did not do it, or did not say
│   ├── TokenKeysUnreachable        the keys by which tokens are verified cannot be had
│   ├── SendIncomplete              some messages of a batch were not taken; it says which
│   ├── StoreUnavailable            the store itself cannot take it now
│   │   ├── StoreBusy, StoreClosed    the engine is held by another, or ends
│   │   ├── StatementTimedOut         a statement of SQL took too long, or waited too long for a lock; it was undone
│   │   ├── StoreUnreachable          no connection to the service, or no answer to a read
│   │   └── StoreFull, StoreIOError   the disk is full or failed; nothing of the request was kept
│   ├── StoreFailed                 the service answered that it failed (5xx)
│   ├── CacheUnavailable            the cache gives no answer: go on without it
│   └── OutcomeUnknown              a write was sent and no answer came: it may be done; read before repeating
└── Defect                        report a bug
    └── RowsGone                    a statement of ours on rows that were dropped; the engine looks again

Where AWS has a text for a failure, `message` is that text to the letter and `code` is the service's name
for it; a hint of ours goes beside it, as a note (`add_note`). Data the caller may act on is in fields. `label`
names the class in stored records, answers, metrics and logs: it stays when a class is renamed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

NAMES_SHOWN_MAX: Final = 5  # in a message


class HoldfastError(Exception):
    """The root. `code` is the name DynamoDB's protocol gives the failure, `label` the one we store and send."""

    label: ClassVar[str] = "HoldfastError"
    code: ClassVar[str] = "InternalServerError"
    http_status: ClassVar[int] = 400

    def __init_subclass__(cls, *, label: str | None = None) -> None:
        """A label is never inherited: without one of its own, a class is labelled with its name."""
        super().__init_subclass__()
        cls.label = label or cls.__name__

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def error_label(error: BaseException | type[BaseException]) -> str:
    """Return the name to store or send: the label of an error of ours, the class name of any other."""
    kind = error if isinstance(error, type) else type(error)
    return kind.label if issubclass(kind, HoldfastError) else kind.__name__


class DeclarationError(HoldfastError, label="DeclarationError"):
    """Fix the declaration or the settings."""


class SettingsError(DeclarationError, label="SettingsError"):
    """A path, an address, a port or a setting that cannot be used."""


class StoreFileError(DeclarationError, label="StoreFileError"):
    """A database file that is not ours, is damaged, or comes from another version."""


class SchemaMismatch(DeclarationError, label="SchemaMismatch"):
    """A schema of SQL and this code do not fit: `current` is the revision it has, None where it has none yet."""

    def __init__(self, schema: str, current: str | None, message: str) -> None:
        super().__init__(message)
        self.schema, self.current = schema, current


class ItemUnreadable(DeclarationError, label="ItemUnreadable"):
    """An item that was written under another declaration. `key` says which, `reason` which attribute and why."""

    def __init__(self, table: str, key: Mapping[str, Any], reason: str) -> None:
        super().__init__(
            f"The item {dict(key)} of {table} cannot be read as it is declared: {reason}. Give the attribute a "
            "default or a wider type, or mend the item."
        )
        self.table, self.key, self.reason = table, key, reason


class MessageUnreadable(DeclarationError, label="MessageUnreadable"):
    """A message that was sent under another declaration, or by somebody else. `id` says which."""

    def __init__(self, queue: str, id: str, reason: str) -> None:
        super().__init__(
            f"The message {id} of {queue} cannot be read as it is declared: {reason}. It ends among the dead letters; "
            "mend the declaration and redrive it, or remove it."
        )
        self.queue, self.id, self.reason = queue, id, reason


class StepMistaken(DeclarationError, label="StepMistaken"):
    """A step of a flow led to a state that it does not declare, or gave what cannot be written. Nothing was."""


class ObjectDamaged(DeclarationError, label="ObjectDamaged"):
    """The bytes are not those that were put: changed, cut off, or encrypted for another place."""

    def __init__(self, bucket: str, key: str, reason: str) -> None:
        super().__init__(
            f"The object {key} in {bucket} is damaged: {reason}. Bring it back from a copy, or put it anew."
        )
        self.bucket, self.key, self.reason = bucket, key, reason


class KeyUnavailable(DeclarationError, label="KeyUnavailable"):
    """A key by which something was encrypted is not in the key file, or the key service refuses it."""


class RequestError(HoldfastError, label="RequestError"):
    """Fix the request: repeating it unchanged cannot help."""


class InvalidRequest(RequestError, label="InvalidRequest"):
    code = "ValidationException"


class EmptyKeyValue(InvalidRequest, label="EmptyKeyValue"):
    """Told apart because a transaction is refused for it as a whole, without a reason per action."""


class MalformedRequest(RequestError, label="MalformedRequest"):
    code = "SerializationException"


class UnknownOperation(RequestError, label="UnknownOperation"):
    code = "UnknownOperationException"


class AccessRefused(RequestError, label="AccessRefused"):
    """`code` varies with the reason: a missing token, an unknown key, a wrong signature."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]


class CallerRefused(AccessRefused, label="CallerRefused"):
    """Somebody calls us and does not prove who it is. Any other `AccessRefused` is of a request that we made."""

    http_status = 401


class TokenRefused(CallerRefused, label="TokenRefused"):
    """A bearer token is missing or invalid: `code` says why, and the token itself is never quoted. `challenge` is
    the value of `WWW-Authenticate` (RFC 6750)."""

    code = "TokenRefused"

    def __init__(self, code: str, message: str, *, challenge: str = 'Bearer error="invalid_token"') -> None:
        super().__init__(code, message)
        self.challenge = challenge


class CallerForbidden(CallerRefused, label="CallerForbidden"):
    """Who calls is known, and its token does not let it do this. `scopes` are those that would be needed."""

    code = "InsufficientScope"
    http_status = 403

    def __init__(self, scopes: Sequence[str]) -> None:
        needed = " ".join(scopes)
        super().__init__(
            "InsufficientScope", f"This needs the scope {needed}: ask the issuer for a token that has it."
        )
        self.scopes = tuple(scopes)
        self.challenge = f'Bearer error="insufficient_scope", scope="{needed}"'


class AnswerRefused(CallerRefused, label="AnswerRefused"):
    """A flow waits, and the token that came with the answer is not that of the wait. The token is never told."""

    code = "AnswerRefused"
    http_status = 403


class TargetRefused(RequestError, label="TargetRefused"):
    """An address that somebody wants to be called at and that we never call: `reason` says why."""

    code = "TargetRefused"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"This address is not called: {reason}. Give one that anybody on the internet may call."
        )
        self.reason = reason


class RequestRefused(RequestError, label="RequestRefused"):
    """`code` is the service's own name for a refusal that has no class of its own here."""

    code = "BadRequest"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]


class PartyRefused(RequestRefused, label="PartyRefused"):
    """An external service refused an effect for good: this attempt did nothing, and a retry would be refused too.
    `code` is the service's own name for the refusal. A refusal for now is `PartyFailed(may_be_done=False)`."""


class ComponentRefused(RequestError, label="ComponentRefused"):
    """A component ran a pattern that it does not declare. Declare it, or run it as another component."""

    code = "AccessDeniedException"
    http_status = 403

    def __init__(self, component: str, pattern: str | None, declared: Sequence[str]) -> None:
        what = f"the pattern {pattern}" if pattern else "an operation that no pattern made"
        super().__init__(
            f"The component {component} may not run {what}: it declares {_first_few(declared) or 'no pattern'}. "
            "Add the pattern to the component, or run it as one that has it."
        )
        self.component, self.pattern = component, pattern


def _first_few(names: Sequence[str]) -> str:
    """`F1, F2, F3 and 37 more`."""
    shown, more = ", ".join(names[:NAMES_SHOWN_MAX]), len(names) - NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


class StoresMixed(RequestError, label="StoresMixed"):
    """One transaction on several stores."""

    def __init__(self, stores: Sequence[str]) -> None:
        super().__init__(
            f"A transaction speaks to one store, and this one has operations on {' and '.join(stores)}: write what "
            "must follow into an outbox, in the same transaction as the state that it announces."
        )
        self.stores = tuple(stores)


class NotFound(RequestError, label="NotFound"):
    code = "ResourceNotFoundException"


class SecretMissing(NotFound, label="SecretMissing"):
    """Nobody has set it. It may be set at any time: who needs it to answer a call says to come again."""

    http_status = 503


class ObjectHeld(RequestError, label="ObjectHeld"):
    """Under a legal hold. Lift the hold first, if you may."""

    code = "AccessDenied"
    http_status = 403

    def __init__(self, bucket: str, key: str) -> None:
        super().__init__(
            f"The object {key} in {bucket} is under a legal hold: lift the hold before it is deleted."
        )
        self.bucket, self.key = bucket, key


class TableNotFound(NotFound, label="TableNotFound"):
    code = "TableNotFoundException"


class BackupNotFound(NotFound, label="BackupNotFound"):
    code = "BackupNotFoundException"


class RecoveryUnavailable(NotFound, label="RecoveryUnavailable"):
    code = "PointInTimeRecoveryUnavailableException"


class AlreadyThere(RequestError, label="AlreadyThere"):
    code = "ResourceInUseException"


class TableAlreadyExists(AlreadyThere, label="TableAlreadyExists"):
    code = "TableAlreadyExistsException"


class TableInUse(AlreadyThere, label="TableInUse"):
    code = "TableInUseException"


class BackupInUse(AlreadyThere, label="BackupInUse"):
    code = "BackupInUseException"


class RowAlreadyThere(AlreadyThere, label="RowAlreadyThere"):
    """A row of SQL whose key is taken. `constraint` is the unique constraint that says so."""

    http_status = 409

    def __init__(self, message: str, *, constraint: str) -> None:
        super().__init__(message)
        self.constraint = constraint


class InvalidRestoreTime(RequestError, label="InvalidRestoreTime"):
    code = "InvalidRestoreTimeException"


class IdempotencyMismatch(RequestError, label="IdempotencyMismatch"):
    code = "IdempotentParameterMismatchException"


class IteratorExpired(RequestError, label="IteratorExpired"):
    code = "ExpiredIteratorException"


class TrimmedData(RequestError, label="TrimmedData"):
    code = "TrimmedDataAccessException"


class Conflict(HoldfastError, label="Conflict"):
    """Read again, decide again, retry."""


class ConditionFailed(Conflict, label="ConditionFailed"):
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


class TransactionCancelled(Conflict, label="TransactionCancelled"):
    """`reasons` has one entry per action, in the order of the request."""

    code = "TransactionCanceledException"

    def __init__(self, reasons: Sequence[CancellationReason]) -> None:
        codes = ", ".join(reason.code for reason in reasons)
        super().__init__(
            f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
        )
        self.reasons = tuple(reasons)


class TransactionConflict(Conflict, label="TransactionConflict"):
    code = "TransactionConflictException"

    def __init__(self, message: str = "Transaction is ongoing for the item") -> None:
        super().__init__(message)


class StandsElsewhere(Conflict, label="StandsElsewhere"):
    """It is not where this could be done with it. `state` says where it stands."""

    http_status = 409

    def __init__(self, message: str, *, state: str) -> None:
        super().__init__(message)
        self.state = state


class NotHeld(StandsElsewhere, label="NotHeld"):
    """It left its hold queue. `state` is `executing`, `executed`, `cancelled`, `refused` or `gone`."""


class NotAwaited(StandsElsewhere, label="NotAwaited"):
    """A flow does not wait for this answer: another was quicker, or it never did."""


class AnswerTooLate(NotAwaited, label="AnswerTooLate"):
    """The deadline of the wait has passed. `state` says where the flow went, or that it is about to leave the wait."""


class NotCancellable(StandsElsewhere, label="NotCancellable"):
    """A flow can be cancelled from some states only."""


class LeaseLost(Conflict, label="LeaseLost"):
    """The lease ran out and was taken over: what was begun under it must not be written."""


class ReceiptLost(Conflict, label="ReceiptLost"):
    """The visibility time ran out and the message went to another receiver, or was deleted: leave it alone."""

    code = "ReceiptHandleIsInvalid"


class RetryLater(HoldfastError, label="RetryLater"):
    """The same request may succeed after a pause; `retry_after_s` says after how long, where that is known."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class InProgress(RetryLater, label="InProgress"):
    """Another worker has claimed the same work and its lease is not over. Do not acknowledge: come again."""

    http_status = 409


class CircuitOpen(RetryLater, label="CircuitOpen"):
    """The breaker is open, or half open with its one probe under way."""

    code = "ServiceUnavailable"
    http_status = 503


class RateLimited(RetryLater, label="RateLimited"):
    """The window is full."""

    code = "TooManyRequests"
    http_status = 429


class PartyFailed(RetryLater, label="PartyFailed"):
    """An outside party refused for now, failed, or gave no answer. `may_be_done` says that the effect may have happened."""

    code = "ServiceUnavailable"
    http_status = 503

    def __init__(self, message: str, *, may_be_done: bool, retry_after_s: float | None = None) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.may_be_done = may_be_done


class TokenKeysUnreachable(RetryLater, label="TokenKeysUnreachable"):
    """The issuer's keys cannot be had, and none are known from before: no token can be verified now."""

    code = "ServiceUnavailable"
    http_status = 503


class SendIncomplete(RetryLater, label="SendIncomplete"):
    """Some messages of a batch were not taken: `unsent` are their places in it. The others are sent."""

    code = "ServiceUnavailable"
    http_status = 503

    def __init__(self, message: str, unsent: Sequence[int]) -> None:
        super().__init__(message)
        self.unsent = tuple(unsent)


class Throttled(RetryLater, label="Throttled"):
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
    code = "LimitExceededException"


class TransactionInProgress(RetryLater, label="TransactionInProgress"):
    code = "TransactionInProgressException"


class StoreUnavailable(RetryLater, label="StoreUnavailable"):
    """The store itself cannot take it now."""

    code = "ServiceUnavailable"
    http_status = 503


class StoreBusy(StoreUnavailable, label="StoreBusy"):
    """Another process has held the file for longer than we are willing to wait."""


class StoreClosed(StoreUnavailable, label="StoreClosed"):
    """The engine is shutting down, or was closed before this was asked of it."""


class StatementTimedOut(StoreUnavailable, label="StatementTimedOut"):
    """A statement of SQL took longer than it may, or waited too long for another's lock. It was undone."""


class StoreUnreachable(StoreUnavailable, label="StoreUnreachable"):
    """No connection to the service, or no answer to a request that changes nothing. Nothing was written."""


class StoreFailed(RetryLater, label="StoreFailed"):
    """The service answered that it failed, and it was a request that changes nothing."""

    http_status = 500


class CacheUnavailable(RetryLater, label="CacheUnavailable"):
    """The cache gives no answer, or refuses. What it keeps can be had elsewhere: go on without it, or come again."""

    code = "ServiceUnavailable"
    http_status = 503


class OutcomeUnknown(RetryLater, label="OutcomeUnknown"):
    """A write was sent and its answer was lost: it may or may not be done. Unless `safe_to_repeat`, read before you
    repeat it, and look for what only this write leaves (a version, an owner, a token). `item` is the item as a repeat
    found it, where the operation asked for it; `token` is the client token to repeat a transaction with."""

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
    """No room left on the disk: nothing of the request was kept. Free some space and repeat it."""


class StoreIOError(StoreUnavailable, label="StoreIOError"):
    """The disk or the memory failed under the file: the request is not acknowledged."""


class Defect(HoldfastError, label="Defect"):
    """A promise of ours is broken: please report it."""

    http_status = 500


class RowsGone(Defect, label="RowsGone"):
    """Rows were named that another process has dropped since: who caches names must look again."""
