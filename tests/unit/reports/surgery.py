"""A small system with SQL, a cache, a bucket and a queue for report tests: a surgery with visits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from holdfast import Bucket, Component, Load, Queue, Rate, Schema, Stores, System, Volume, pattern
from holdfast.model.cache import CachedValue, CountInWindow, GetCached, PutCached, WindowCounter
from holdfast.model.demo import Demo
from holdfast.model.objects import DeleteObject, GetOrPutObject
from holdfast.model.queues import Send
from holdfast.model.sql import SqlChange, SqlOne, SqlReturning, SqlRow, SqlRows
from holdfast.model.system import Deployment, Design

VISIT = Rate(per="visit")
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)

surgery = Schema(
    "surgery", migrations="tests.unit.reports.surgery_migrations", purpose="Who came, and what for."
)


class Visit(SqlRow):
    id: int
    patient: str
    status: str


class Drugs(SqlRow):
    drug: str
    count: int


class Doctor(BaseModel):
    name: str


class Reminder(BaseModel):
    visit: int


reminders = Queue("surgery-reminders", Reminder)
doctors = CachedValue("doctor:{id}", Doctor, lifetime_s=300, purpose="Who is on duty")
calls = WindowCounter("calls:{patient}:{window}", window_s=60)


def bucket_name(environment: str) -> str:
    """Return the bucket's physical name, which contains the region of the environment."""
    return f"acme-{environment}-scans-useast{1 if environment == 'prod' else 2}"


scans_bucket = Bucket(
    "surgery-scans",
    physical=bucket_name,
    encryption="kms",
    kms_key="alias/surgery-{environment}",
    versions=True,
    legal_holds=True,
)
scans = scans_bucket.objects(
    "{created_at:%Y%m}/{id}/scan.pdf", content_type="application/pdf", lifetime_days=2557
)


@pattern("V1", "Begin a visit", rate=VISIT, example=("ada", NOON))
def begin(patient: str, at: datetime) -> SqlReturning[Visit]:
    return surgery.returning(
        Visit,
        "INSERT INTO surgery.visits (patient, status, begun_at) VALUES (%(patient)s, 'open', %(at)s) "
        "RETURNING {columns}",
        patient=patient,
        at=at,
    )


@pattern("V2", "The visits of a patient", rate=VISIT, example=("ada",))
def visits(patient: str) -> SqlRows[Visit]:
    return surgery.rows(
        Visit, "SELECT {columns} FROM surgery.visits WHERE patient = %(patient)s", patient=patient
    )


@pattern("V3", "One visit", rate=VISIT, example=(1,))
def visit(id: int) -> SqlOne[Visit]:
    return surgery.one(Visit, "SELECT {columns} FROM surgery.visits WHERE id = %(id)s", id=id)


@pattern("V4", "End a visit", rate=VISIT, example=("bo",))
def end(patient: str) -> SqlChange:
    return surgery.change(
        "UPDATE surgery.visits SET status = 'done' WHERE patient = %(patient)s AND status = 'open'",
        patient=patient,
    ).expect_rows(1)


@pattern("V5", "Begin the visit of who has none", rate=VISIT, example=("bo", NOON))
def walk_in(patient: str, at: datetime) -> SqlChange:
    return surgery.change(
        "INSERT INTO surgery.visits (patient, status, begun_at) VALUES (%(patient)s, 'open', %(at)s)",
        patient=patient,
        at=at,
    )


@pattern("V6", "What was prescribed most", rate=VISIT, example=())
def drugs() -> SqlRows[Drugs]:
    return surgery.rows(
        Drugs,
        "SELECT p.drug, count(*) AS count FROM surgery.prescriptions p JOIN surgery.visits v ON v.id = "
        "p.visit GROUP BY p.drug",
    )


@pattern("V7", "Forget old visits", rate=VISIT, example=(NOON,))
def forget(before: datetime) -> SqlChange:
    return surgery.change("DELETE FROM surgery.visits WHERE begun_at < %(before)s", before=before)


@pattern("C1", "Who is on duty", rate=VISIT, example=("d1",))
def on_duty(id: str) -> GetCached[Doctor]:
    return doctors.get(id=id)


@pattern("C2", "Remember who is on duty", rate=VISIT, example=lambda: (Doctor(name="Dr. No"), "d1"))
def remember(doctor: Doctor, id: str) -> PutCached[Doctor]:
    return doctors.put(doctor, id=id)


@pattern("C3", "Count a call", rate=VISIT, example=("ada", 7))
def count_call(patient: str, window: int) -> CountInWindow:
    return calls.count(patient=patient, window=window)


@pattern("O1", "Keep a scan, or find that it is kept", rate=VISIT, example=(b"pdf", NOON, "s1"))
def keep_scan(body: bytes, created_at: datetime, id: str) -> GetOrPutObject:
    return scans.get_or_put(body, created_at=created_at, id=id)


@pattern("O2", "Throw a scan away", rate=VISIT, example=(NOON, "s1"))
def drop_scan(created_at: datetime, id: str) -> DeleteObject:
    return scans.delete(created_at=created_at, id=id)


@pattern("Q1", "Remind a patient", rate=VISIT, example=(Reminder(visit=1),))
def remind(reminder: Reminder) -> Send[Reminder]:
    return reminders.send(reminder)


async def sample(stores: Stores, *, scale: int = 1, progress: Any = None) -> None:
    """Begin three visits of one patient."""
    for _ in range(3):
        await stores.run(begin("ada", NOON))


PATTERNS = (
    begin, visits, visit, end, walk_in, drugs, forget, on_duty, remember, count_call, keep_scan, drop_scan,
    remind,
)  # fmt: skip

SYSTEM = System(
    name="surgery",
    title="Surgery",
    purpose="Sees patients.",
    queues=(reminders,),
    buckets=(scans_bucket,),
    schemas=(surgery,),
    patterns=PATTERNS,
    components=(
        Component("desk", "Takes patients in.", uses=(visits, visit, on_duty, begin, walk_in, count_call)),
        Component("doctor", "Sees them.", uses=(drugs, end, keep_scan, remember, remind)),
        Component("archive", "Forgets.", uses=(forget, drop_scan)),
    ),
    design=Design(load=Load(volumes={"visit": Volume(per_month=1_000)})),
    demo=Demo(sample=sample),
    deployment=Deployment(environments={"dev": "us-east-2", "prod": "us-east-1"}, needs_environment=True),
)
