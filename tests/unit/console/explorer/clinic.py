"""A sample system for the tests of the explorer: a clinic, its patients, visits and reminders."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from holdfast import (
    Attr,
    Bucket,
    Component,
    Consumer,
    Delete,
    Document,
    Entity,
    Get,
    IndexKey,
    Key,
    Lifetime,
    Load,
    Put,
    Query,
    Queue,
    Rate,
    Schedule,
    Stores,
    System,
    Table,
    Volume,
    attr,
    batch_get,
    pattern,
)
from holdfast.console import PageLink, SystemPages
from holdfast.model.demo import Demo
from holdfast.model.entities import BatchGet, Scan
from holdfast.model.queues import Send
from holdfast.model.system import Admin, Design, Privacy

VISIT: Final = Rate(per="visit", times=2)
NINE: Final = datetime(2096, 3, 1, 9, tzinfo=UTC)


class Ward(StrEnum):
    """Where a patient lies."""

    east = "east"
    west = "west"


class Address(Document):
    """Where a patient lives."""

    street: str
    rooms: int = 1


patients = Table("Patients", partition="patientId", purpose="Who is treated")
visits = Table("Visits", partition="patientId", sort="at", ttl="expiresAt", stream="NEW_IMAGE")
by_doctor = visits.global_index("by-doctor", "doctor", "at", purpose="The day of a doctor")


class Patient(Entity, table=patients):
    """A person who is treated."""

    patient_id: Attr[str] = attr()
    phone: Attr[str | None] = attr(default=None)
    notes: Attr[str] = attr(default="")
    ward: Attr[Ward] = attr(default=Ward.east)
    address: Attr[Address | None] = attr(default=None)
    picture: Attr[bytes | None] = attr(default=None)
    of = Key(patient_id)


class Visit(Entity, table=visits):
    patient_id: Attr[str] = attr()
    at: Attr[datetime] = attr()
    doctor: Attr[str | None] = attr(default=None)
    cost: Attr[Decimal] = attr(default=Decimal(0))
    of = Key(patient_id, at)
    of_doctor = IndexKey(by_doctor, doctor, at)
    life = Lifetime(at, timedelta(days=90))


class Reminder(BaseModel):
    patient_id: str


reminders = Queue("clinic_reminders", Reminder, prefix="RM", rate=Rate(per="visit"))
scans = Bucket("clinic-scans", purpose="Pictures")


@pattern("P1", "One patient", rate=VISIT, example=("p-1",))
def patient(patient_id: Annotated[str, Field(description="The id, as p-1")]) -> Get[Patient]:
    return Patient.of(patient_id).get()


@pattern("P2", "Several patients", rate=VISIT, example=(["p-1", "p-2"],))
def several_patients(patient_ids: Sequence[str]) -> BatchGet[Patient]:
    return batch_get(Patient.of(each).get() for each in patient_ids)


@pattern("P3", "Admit a patient", rate=VISIT, example=(Patient(patient_id="p-9"),))
def admit(patient: Patient) -> Put[Patient]:
    return Patient.put(patient).if_absent()


@pattern("P4", "Patients of a ward", rate=VISIT, example=(Ward.east, None))
def patients_of(ward: Ward, after: str | None = None) -> Scan[Patient]:
    return Patient.scan(reason="there are few").where(Patient.ward == ward).after(after)


@pattern("P5", "Dismiss a patient", rate=VISIT, example=("p-1",))
def dismiss(patient_id: str) -> Delete[Patient]:
    return Patient.of(patient_id).delete()


@pattern("V1", "Visits of a patient since a time", rate=VISIT, example=("p-1", NINE))
def visits_of(patient_id: str, since: datetime) -> Query[Visit]:
    return Visit.of(patient_id).since(since)


@pattern("V2", "Visits of a doctor", rate=Rate(per="round"), example=("d-1",))
def visits_of_doctor(doctor: str, day: date | None = None, urgent: bool = False) -> Query[Visit]:
    return Visit.of_doctor(doctor).query()


@pattern("V3", "Visits by house", rate=VISIT, example=("p-1", Address(street="Main Road")))
def visits_near(patient_id: str, address: Address, shares: Sequence[Address] = ()) -> Query[Visit]:
    return Visit.of(patient_id).query()


@pattern("R1", "Remind a patient", rate=VISIT, example=(Reminder(patient_id="p-1"),))
def remind(reminder: Reminder) -> Send[Reminder]:
    return reminders.send(reminder)


@asynccontextmanager
async def open_handler(stores: Stores) -> Any:
    async def handle(message: Any) -> None:
        del message

    yield handle


async def sweep(stores: Stores) -> None:
    del stores


def redact_rooms(text: str) -> str:
    """Hide the numbers of rooms."""
    return text.replace("room 7", "room [hidden]")


async def write_sample(stores: Stores, *, scale: float = 1, progress: Any = None) -> None:
    """Write two patients and thirty visits."""
    for number in (1, 2):
        await stores.run(Patient.put(Patient(patient_id=f"p-{number}", ward=Ward.west)))
    for hour in range(30):
        at = NINE + timedelta(hours=hour)
        await stores.run(Visit.put(Visit(patient_id="p-1", at=at, doctor="d-1")))


def load_pages(stores: Stores) -> SystemPages:
    """Return one page."""
    from pathlib import Path

    from fastapi import APIRouter

    return SystemPages(APIRouter(), Path(__file__).parent, (PageLink("Rounds", "/rounds"),))


api = Component(
    "api",
    "Serves the wards",
    uses=(patient, several_patients, admit, patients_of, visits_of, visits_of_doctor, visits_near, remind),
)
nurse = Component(
    "nurse",
    "Reminds patients",
    uses=(patient,),
    consumers=(Consumer(reminders, open_handler),),
    schedules=(Schedule("sweep", 60.0, sweep),),
)
console = Component("console", "Its pages", uses=(patient,), read_only=True)

CLINIC: Final = System(
    "clinic",
    "Treats patients",
    title="Clinic",
    tables=(patients, visits),
    components=(api, nurse, console),
    patterns=(dismiss,),
    buckets=(scans,),
    design=Design(load=Load({"visit": Volume(1000), "round": Volume(10)})),
    admin=Admin(arguments={"patient_id": "Which patient", "doctor": "Which doctor"}),
    privacy=Privacy(redact_logs=redact_rooms),
    demo=Demo(sample=write_sample),
    pages=load_pages,
)
EMPTY: Final = System("empty", "Has nothing yet")


def rename(system: System, name: str) -> System:
    """Return the system under another name."""
    return replace(system, name=name, title=name)
