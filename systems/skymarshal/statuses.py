"""The words that rows are filed under: statuses, positions, handling codes, each in its one stored spelling.

An index finds only what is spelled exactly as asked, and carriers spell freely ('CheckedIn', 'CHECKED_IN', 'HK').
So every word is normalised where it enters: calling the enum with any known spelling gives the stored one, and an
unknown spelling is a ValueError that names the known ones. Bookings are spelled as people write them ('Confirmed'),
everything on the ramp in capitals ('CHECKED_IN').
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Self

RANK_SEPARATOR = "#"


class Word(StrEnum):
    """A word with one stored spelling and many others that mean it."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        stored = _stored_spellings(cls).get(_folded(str(value)))
        if stored is None:
            known = ", ".join(member.value for member in cls)
            raise ValueError(f"{value!r} is not a {cls.__name__} we know; the known ones are {known}.")
        return cls(stored)


class BookingStatus(Word):
    CONFIRMED = "Confirmed"
    WAITLISTED = "Waitlisted"
    STANDBY = "Standby"
    CHECKED_IN = "CheckedIn"
    BOARDED = "Boarded"
    FLOWN = "Flown"
    NO_SHOW = "NoShow"
    CANCELLED = "Cancelled"

    @property
    def holds_a_seat(self) -> bool:
        return self in (BookingStatus.CONFIRMED, BookingStatus.CHECKED_IN, BookingStatus.BOARDED)


class BaggageStatus(Word):
    CHECKED_IN = "CHECKED_IN"
    SCREENED = "SCREENED"
    LOADED = "LOADED"
    IN_TRANSIT = "IN_TRANSIT"
    TRANSFER = "TRANSFER"
    ARRIVED = "ARRIVED"
    DELIVERED = "DELIVERED"
    OFFLOADED = "OFFLOADED"
    MISHANDLED = "MISHANDLED"
    DAMAGED = "DAMAGED"
    LOST = "LOST"

    @property
    def tracking_point(self) -> str | None:
        """Which of the four points of IATA resolution 753 this status proves, if one."""
        return TRACKING_POINTS.get(self)


class CrewStatus(Word):
    ASSIGNED = "ASSIGNED"
    CONFIRMED = "CONFIRMED"
    STANDBY = "STANDBY"
    ON_DUTY = "ON_DUTY"
    COMPLETED = "COMPLETED"
    SICK = "SICK"
    REMOVED = "REMOVED"


class LoadingStatus(Word):
    PENDING = "PENDING"
    LOADED = "LOADED"
    OFFLOADED = "OFFLOADED"
    DEPARTED = "DEPARTED"
    ARRIVED = "ARRIVED"
    DELIVERED = "DELIVERED"


class WorkOrderStatus(Word):
    OPEN = "OPEN"
    IN_PROGRESS = "IN_PROGRESS"
    AWAITING_PARTS = "AWAITING_PARTS"
    DEFERRED = "DEFERRED"
    CLOSED = "CLOSED"

    @property
    def holds_the_aircraft(self) -> bool:
        """Deferred work waits under the minimum equipment list; closed work is done."""
        return self not in (WorkOrderStatus.DEFERRED, WorkOrderStatus.CLOSED)


class DisruptionKind(Word):
    DELAY = "delay"
    CANCEL = "cancel"
    SWAP = "swap"


class CrewPosition(Word):
    """The document files a Captain under "1" and a First Officer under "2"; the rest continues its count."""

    CAPTAIN = "1"
    FIRST_OFFICER = "2"
    RELIEF_PILOT = "3"
    CABIN_MANAGER = "4"
    CABIN_CREW = "5"

    @property
    def label(self) -> str:
        return self.name.replace("_", " ").capitalize()

    @property
    def is_flight_deck(self) -> bool:
        return self in (CrewPosition.CAPTAIN, CrewPosition.FIRST_OFFICER, CrewPosition.RELIEF_PILOT)


class ReputationRisk(Word):
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class MelCategory(Word):
    """How long a defect may wait under the minimum equipment list."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"

    @property
    def days(self) -> int | None:
        """Calendar days after the day of discovery; category A has its own limit in each item."""
        return MEL_DAYS[self]


class CargoSpecialHandling(Word):
    """IATA special handling codes (Cargo-IMP). The smaller the priority, the later it is offloaded."""

    LHO = "LHO"
    HUM = "HUM"
    AVI = "AVI"
    PIL = "PIL"
    AOG = "AOG"
    PER = "PER"
    PES = "PES"
    PEM = "PEM"
    PEF = "PEF"
    PEP = "PEP"
    HEG = "HEG"
    COL = "COL"
    FRO = "FRO"
    VAL = "VAL"
    DIP = "DIP"
    VUN = "VUN"
    DGR = "DGR"
    CAO = "CAO"
    ICE = "ICE"
    EAT = "EAT"
    MAL = "MAL"
    NWP = "NWP"
    HEA = "HEA"
    BIG = "BIG"
    GEN = "GEN"

    @property
    def meaning(self) -> str:
        return HANDLING[self][1]

    @property
    def priority(self) -> int:
        return HANDLING[self][0]

    @property
    def is_special(self) -> bool:
        return self is not CargoSpecialHandling.GEN


TRACKING_POINTS: Mapping[BaggageStatus, str] = MappingProxyType(
    {
        BaggageStatus.CHECKED_IN: "acceptance",
        BaggageStatus.LOADED: "load",
        BaggageStatus.TRANSFER: "transfer",
        BaggageStatus.DELIVERED: "return",
    }
)

# MMEL policy letter PL-25 of the FAA and CS-MMEL of EASA: consecutive calendar days, the day of discovery excluded.
MEL_DAYS: Mapping[MelCategory, int | None] = MappingProxyType(
    {MelCategory.A: None, MelCategory.B: 3, MelCategory.C: 10, MelCategory.D: 120}
)

# The priorities are working values of ours: life first, then what spoils, then what is worth much, then the rest.
HANDLING: Mapping[CargoSpecialHandling, tuple[int, str]] = MappingProxyType(
    {
        CargoSpecialHandling.LHO: (1, "Living human organs or blood"),
        CargoSpecialHandling.HUM: (2, "Human remains"),
        CargoSpecialHandling.AVI: (3, "Live animals"),
        CargoSpecialHandling.PIL: (4, "Pharmaceuticals"),
        CargoSpecialHandling.AOG: (5, "Parts for an aircraft on ground"),
        CargoSpecialHandling.PER: (6, "Perishables"),
        CargoSpecialHandling.PES: (6, "Fish and seafood"),
        CargoSpecialHandling.PEM: (6, "Meat"),
        CargoSpecialHandling.PEF: (6, "Flowers"),
        CargoSpecialHandling.PEP: (6, "Fruit and vegetables"),
        CargoSpecialHandling.HEG: (6, "Hatching eggs"),
        CargoSpecialHandling.COL: (7, "Cool goods"),
        CargoSpecialHandling.FRO: (7, "Frozen goods"),
        CargoSpecialHandling.VAL: (8, "Valuables"),
        CargoSpecialHandling.DIP: (8, "Diplomatic mail"),
        CargoSpecialHandling.VUN: (9, "Goods easily stolen"),
        CargoSpecialHandling.DGR: (10, "Dangerous goods"),
        CargoSpecialHandling.CAO: (10, "Cargo aircraft only"),
        CargoSpecialHandling.ICE: (10, "Dry ice"),
        CargoSpecialHandling.EAT: (11, "Foodstuffs"),
        CargoSpecialHandling.MAL: (12, "Mail"),
        CargoSpecialHandling.NWP: (12, "Newspapers"),
        CargoSpecialHandling.HEA: (13, "Heavy pieces"),
        CargoSpecialHandling.BIG: (13, "Outsized pieces"),
        CargoSpecialHandling.GEN: (14, "General cargo"),
    }
)

# What carriers, reservation systems (AIRIMP) and Cargo-IMP write. Case, blanks, hyphens and underscores never matter.
OTHER_SPELLINGS: Mapping[type[Word], Mapping[str, str]] = MappingProxyType(
    {
        BookingStatus: {
            "Confirmed": "HK KK KL RR TK OK booked ticketed",
            "Waitlisted": "HL HW UU WL waitlist waiting",
            "Standby": "SA",
            "CheckedIn": "checkin CKIN accepted",
            "Boarded": "onboard BDD",
            "Flown": "travelled traveled completed",
            "NoShow": "NS noshows",
            "Cancelled": "canceled HX XX XK XL UN UC NO cancel CXL",
        },
        BaggageStatus: {
            "CHECKED_IN": "checkin accepted acceptance",
            "SCREENED": "cleared",
            "LOADED": "onboard load",
            "IN_TRANSIT": "inflight",
            "TRANSFER": "transferred intransfer",
            "DELIVERED": "returned return claimed collected",
            "OFFLOADED": "unloaded offload",
            "MISHANDLED": "delayed rush misrouted shortlanded",
            "LOST": "missing",
        },
        CrewStatus: {
            "ASSIGNED": "rostered scheduled planned",
            "CONFIRMED": "acknowledged",
            "STANDBY": "reserve SBY",
            "ON_DUTY": "active reported",
            "COMPLETED": "done flown",
            "SICK": "unfit",
            "REMOVED": "released cancelled canceled",
        },
        LoadingStatus: {
            "PENDING": "planned booked accepted RCS",
            "LOADED": "manifested MAN onboard load",
            "OFFLOADED": "unloaded offload",
            "DEPARTED": "DEP intransit",
            "ARRIVED": "ARR RCF",
            "DELIVERED": "DLV",
        },
        WorkOrderStatus: {
            "OPEN": "new raised",
            "IN_PROGRESS": "started working",
            "AWAITING_PARTS": "waitingforparts",
            "DEFERRED": "MEL",
            "CLOSED": "done completed released",
        },
        DisruptionKind: {
            "delay": "delayed late",
            "cancel": "cancelled canceled cancellation CNL",
            "swap": "aircraftchange aircraftswap equipmentchange EQT",
        },
        CrewPosition: {
            "1": "CPT CP CA PIC captain commander",
            "2": "FO SIC copilot firstofficer",
            "3": "SO RP CRP reliefpilot secondofficer",
            "4": "CM SCCM purser cabinmanager CSD",
            "5": "CC FA cabincrew flightattendant",
        },
        ReputationRisk: {"HIGH": "H", "MEDIUM": "M MED", "LOW": "L"},
    }
)


def risk_rank(risk: str | ReputationRisk) -> str:
    """The risk as a sort key: HIGH, MEDIUM, LOW would sort as HIGH, LOW, MEDIUM by their letters."""
    known = ReputationRisk(risk)
    return f"{list(ReputationRisk).index(known) + 1}{RANK_SEPARATOR}{known}"


def risk_of(rank: str) -> ReputationRisk:
    """The risk that such a sort key says; ValueError when number and word do not agree."""
    risk = ReputationRisk(rank.partition(RANK_SEPARATOR)[2])
    if rank != risk_rank(risk):
        raise ValueError(f"The risk rank {rank!r} is not {risk_rank(risk)!r}; build it with risk_rank().")
    return risk


def repair_due(category: str | MelCategory, discovered: date) -> date | None:
    """The last day on which the aircraft may fly with the defect; None where the item itself sets it."""
    days = MelCategory(category).days
    return None if days is None else discovered + timedelta(days=days)


@cache
def _stored_spellings(kind: type[Word]) -> Mapping[str, str]:
    spellings = {_folded(text): member.value for member in kind for text in (member.name, member.value)}
    for stored, others in OTHER_SPELLINGS.get(kind, {}).items():
        spellings |= {_folded(other): stored for other in others.split()}
    return spellings


def _folded(text: str) -> str:
    return re.sub(r"[\s_\-.]", "", text).lower()
