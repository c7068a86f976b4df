"""What the console stores itself: the audit of what its users did and revealed, sign-ins and samples.

`CONSOLE` is a system like those that it shows, but is not installed as one. Sessions are in the cache, so
they end with it. The record of a user is in a table, because "sign out everywhere" must not be forgotten.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Literal

from pydantic import BaseModel

from holdfast.console.overview.records import SAMPLER, keep_sample, list_samples, samples_table
from holdfast.guarantees import Audit, AuditEntry, Sessions, WindowLimit
from holdfast.model.cache import WindowCounter
from holdfast.model.components import Component
from holdfast.model.entities import Attr, Entity, Get, Key, Lifetime, Put, Query, Scan, Update, attr
from holdfast.model.patterns import Rate, pattern
from holdfast.model.system import System
from holdfast.model.tables import Table

AUDIT_RETENTION_S: Final = 365 * 86400
SIGN_IN_RETENTION: Final = timedelta(days=90)
# A session ends this long after its last request, and this long after it began at the latest.
SESSION_LIFETIME_S: Final = 3600.0
MAX_SESSION_LIFETIME_S: Final = 12 * 3600.0
# How long a browser may be away at the identity provider.
PENDING_LIFETIME_S: Final = 600.0
ATTEMPT_WINDOW_S: Final = 900.0
# Users behind a proxy that is not trusted share its address.
MAX_ATTEMPTS_PER_NAME: Final = 10
MAX_ATTEMPTS_PER_ADDRESS: Final = 100
# Going to the identity provider is not an attempt. It puts a value into the cache, which must not get full.
MAX_BEGINNINGS_PER_ADDRESS: Final = 2000
PAGE: Final = 50

SignInMethod = Literal["demo", "local", "oidc"]

# --- the audit ----------------------------------------------------------------------------------------------

audit_table = Table("HoldfastConsoleAudit", partition="day", sort="place", ttl="expiresAt")


class AuditPhase(StrEnum):
    """Whether an entry says what a user is about to do, or what became of it."""

    INTENT = "intent"
    OUTCOME = "outcome"


class ConsoleAudit(AuditEntry, table=audit_table):
    """One thing that a user did or revealed."""

    day: Attr[str] = attr()
    user: Attr[str] = attr()
    # What happened, such as `sign-in`, `reveal`, `edit`, `redrive`.
    action: Attr[str] = attr()
    system: Attr[str | None] = attr(default=None)
    # What it concerned, such as a table and the hash of a key; never personal data.
    target: Attr[str | None] = attr(default=None)
    # None for what has no effect that could fail after it was recorded.
    phase: Attr[AuditPhase | None] = attr(default=None)
    place: Attr[str] = attr()
    of = Key(day, place)


AUDIT: Final = Audit(
    ConsoleAudit,
    prefix="CA",
    rate=Rate(per="action in the console"),
    example={"day": "2026-11-18", "user": "ada", "action": "sign-in"},
    retention_s=AUDIT_RETENTION_S,
)


@pattern(
    "CA4", "The audit of a day, newest first", rate=Rate(per="page of the audit"), example=("2026-11-18",)
)
def newest_entries(
    day: str, user: str = "", action: str = "", limit: int = PAGE, after: str | None = None
) -> Query[ConsoleAudit]:
    """Entries of a day, of one user or one action if they are given."""
    query = ConsoleAudit.of(day).query().descending().page(limit, after)
    if user:
        query = query.where(ConsoleAudit.user == user)
    return query.where(ConsoleAudit.action == action) if action else query


@pattern(
    "CA5",
    "One entry of the audit",
    rate=Rate(per="page of the audit"),
    example=("2026-11-18", "2026-11-18T09:00:00.000000Z#01KAB"),
)
def get_entry(day: str, place: str) -> Get[ConsoleAudit]:
    return ConsoleAudit.of(day).get(place)


# --- users and their sign-ins -------------------------------------------------------------------------------

users_table = Table("HoldfastConsoleUsers", partition="account")
sign_ins_table = Table("HoldfastConsoleSignIns", partition="account", sort="place", ttl="expiresAt")


class ConsoleUser(Entity, table=users_table):
    """A user who has signed in. `account` is the method and the user's id there: `local:ada`."""

    account: Attr[str] = attr()
    name: Attr[str] = attr()
    method: Attr[str] = attr()
    last_sign_in: Attr[datetime | None] = attr(default=None)
    # The roles that the identity provider named last; None for users whose roles the console keeps.
    roles: Attr[list[str] | None] = attr(default=None)
    # Sessions that began earlier are over, in epoch seconds.
    ended_before: Attr[float] = attr(default=0.0)
    of = Key(account)


class SignInRecord(Entity, table=sign_ins_table):
    """One sign-in, or one that was refused, of a known user. `place` is its time and an id."""

    account: Attr[str] = attr()
    place: Attr[str] = attr()
    at: Attr[datetime] = attr()
    address: Attr[str] = attr()
    # Why it was refused; None for a sign-in.
    refused: Attr[str | None] = attr(default=None)
    # When the user signed out of it.
    ended: Attr[datetime | None] = attr(default=None)
    of = Key(account, place)
    kept = Lifetime(at, SIGN_IN_RETENTION)


_ACCOUNT: Final = "local:ada"
_PLACE: Final = "2026-11-18T09:00:00.000000Z#01KAB"


@pattern("CU1", "A user of the console", rate=Rate(per="request to the console"), example=(_ACCOUNT,))
def get_user(account: str) -> Get[ConsoleUser]:
    return ConsoleUser.of(account).get().consistent()


@pattern("CU2", "All users who have signed in", rate=Rate(per="page of users"))
def list_users(limit: int = PAGE, after: str | None = None) -> Scan[ConsoleUser]:
    return ConsoleUser.scan(reason="one item for each user, on a page of an administrator").page(limit, after)


@pattern(
    "CU3",
    "Note that a user signs in",
    rate=Rate(per="sign-in"),
    example=(_ACCOUNT, "ada", "local", None, datetime(2026, 11, 18, tzinfo=UTC)),
)
def note_sign_in(
    account: str, name: str, method: str, roles: list[str] | None, at: datetime
) -> Update[ConsoleUser]:
    update = ConsoleUser.of(account).update().or_create()
    update = update.set(ConsoleUser.name, name).set(ConsoleUser.method, method)
    update = update.set(ConsoleUser.last_sign_in, at)
    return update if roles is None else update.set(ConsoleUser.roles, roles)


@pattern(
    "CU4",
    "End the sessions of a user that began before",
    rate=Rate(per="sign-out everywhere"),
    example=(_ACCOUNT, 1770166800.0),
)
def end_before(account: str, at: float) -> Update[ConsoleUser]:
    return ConsoleUser.of(account).update().set(ConsoleUser.ended_before, at)


@pattern("CU5", "The last sign-ins of a user", rate=Rate(per="account page"), example=(_ACCOUNT,))
def last_sign_ins(account: str, limit: int = 10) -> Query[SignInRecord]:
    return SignInRecord.of(account).query().descending().page(limit)


@pattern(
    "CU6",
    "Record a sign-in",
    rate=Rate(per="sign-in"),
    example=lambda: (
        SignInRecord(account=_ACCOUNT, place=_PLACE, at=datetime(2026, 11, 18, tzinfo=UTC), address="::1"),
    ),
)
def record_sign_in(record: SignInRecord) -> Put[SignInRecord]:
    return SignInRecord.create(record)


@pattern(
    "CU7",
    "Record that a user signed out",
    rate=Rate(per="sign-out"),
    example=(_ACCOUNT, _PLACE, datetime(2026, 11, 18, tzinfo=UTC)),
)
def record_sign_out(account: str, place: str, at: datetime) -> Update[SignInRecord]:
    return SignInRecord.of(account).update(place).set(SignInRecord.ended, at)


# --- sessions and attempts ----------------------------------------------------------------------------------


class SignIn(BaseModel, frozen=True):
    """A session's value: who signed in, how and when, and the token that forms must carry (CSRF)."""

    user: str
    method: SignInMethod
    csrf: str
    # The user's id for the method: the name of a local user, the subject of an identity provider.
    subject: str = ""
    begun_at: float = 0.0
    # The place of its `SignInRecord`.
    place: str = ""
    # Of the password or the provider. A session ends when it changes.
    stamp: str = ""
    # The roles that an identity provider named; None for users whose roles the console keeps itself.
    roles: tuple[str, ...] | None = None

    @property
    def account(self) -> str:
        """The key of the user: the same name at two methods is two users."""
        return f"{self.method}:{self.subject or self.user}"


SESSIONS: Final = Sessions(
    "console_session:{id}",
    SignIn,
    prefix="CS",
    rate=Rate(per="request to the console"),
    lifetime_s=SESSION_LIFETIME_S,
    max_lifetime_s=MAX_SESSION_LIFETIME_S,
    example={},
    example_value=SignIn(user="ada", method="local", csrf="c" * 43),
)


class PendingSignIn(BaseModel, frozen=True):
    """A sign-in whose browser is at the identity provider."""

    nonce: str
    verifier: str
    # The same value is in a cookie: another browser cannot finish the sign-in.
    binding: str
    redirect_uri: str
    target: str


PENDING: Final = Sessions(
    "console_pending:{id}",
    PendingSignIn,
    prefix="CP",
    rate=Rate(per="sign-in at the identity provider"),
    lifetime_s=PENDING_LIFETIME_S,
    max_lifetime_s=PENDING_LIFETIME_S,
    example={},
    example_value=PendingSignIn(
        nonce="n" * 43, verifier="v" * 43, binding="b" * 43, redirect_uri="https://c.example", target="/"
    ),
)

# `kind` is `name`, `address` or `beginning`; `subject` is a hash of the name or the address.
_attempts = WindowCounter("console_attempts:{kind}:{subject}:{window}", window_s=ATTEMPT_WINDOW_S)
_reports = WindowCounter("console_refusals:{kind}:{subject}:{window}", window_s=ATTEMPT_WINDOW_S)
_SUBJECT: Final = {"kind": "name", "subject": "8a8de823d5ed3e12746a62ef169bcf37"}

ATTEMPTS: Final = WindowLimit(
    _attempts,
    prefix="CT",
    rate=Rate(per="attempt to sign in"),
    example=_SUBJECT,
    limit=MAX_ATTEMPTS_PER_NAME,
    fails="closed",
)
REPORTS: Final = WindowLimit(
    _reports,
    prefix="CR",
    rate=Rate(per="refused attempt to sign in"),
    example=_SUBJECT,
    limit=1,
    fails="closed",
)
"""Refusals for too many attempts are audited once in a window, so that they do not fill the audit."""

CONSOLE: Final = System(
    "console",
    "The web console: shows and operates every installed system",
    title="Console",
    tables=(audit_table, users_table, sign_ins_table, samples_table),
    components=(
        Component(
            "console",
            "Serves the pages",
            uses=(
                AUDIT,
                SESSIONS,
                PENDING,
                ATTEMPTS,
                REPORTS,
                SAMPLER,
                newest_entries,
                get_entry,
                get_user,
                list_users,
                note_sign_in,
                end_before,
                last_sign_ins,
                record_sign_in,
                record_sign_out,
                keep_sample,
                list_samples,
            ),
        ),
    ),
)
