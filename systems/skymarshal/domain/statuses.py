"""Enums of statuses, crew positions, risks and handling codes, each member with one stored spelling.

An index only finds exact spellings, and carriers spell freely ('CheckedIn', 'CHECKED_IN', 'HK'). So every
word is normalised on input: calling the enum with any known spelling returns the member with the stored one,
and an unknown spelling raises a ValueError that lists the stored ones. Booking statuses are stored as people
write them ('Confirmed'), ground statuses in capitals ('CHECKED_IN').
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


class NormalisedEnum(StrEnum):
    """Base of enums with one stored spelling per member and many accepted ones."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        """Return the member of any accepted spelling. Raise ValueError for an unknown one."""
        stored = _get_spellings(cls).get(_fold_spelling(str(value)))
        if stored is None:
            known = ", ".join(member.value for member in cls)
            raise ValueError(f"Invalid {cls.__name__} {value!r}: expected one of {known}.")
        return cls(stored)


class BookingStatus(NormalisedEnum):
    """The status of a booking."""

    CONFIRMED = "Confirmed"
    WAITLISTED = "Waitlisted"
    STANDBY = "Standby"
    CHECKED_IN = "CheckedIn"
    BOARDED = "Boarded"
    FLOWN = "Flown"
    NO_SHOW = "NoShow"
    CANCELLED = "Cancelled"

    @property
    def has_seat(self) -> bool:
        """Whether a booking with this status holds a seat."""
        return self in (BookingStatus.CONFIRMED, BookingStatus.CHECKED_IN, BookingStatus.BOARDED)


class BaggageStatus(NormalisedEnum):
    """The status of a bag on its way."""

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
        """The tracking point of IATA resolution 753 that this status proves, if any."""
        return TRACKING_POINTS.get(self)


class CrewStatus(NormalisedEnum):
    """The status of a crew member on a flight's roster."""

    ASSIGNED = "ASSIGNED"
    CONFIRMED = "CONFIRMED"
    STANDBY = "STANDBY"
    ON_DUTY = "ON_DUTY"
    COMPLETED = "COMPLETED"
    SICK = "SICK"
    REMOVED = "REMOVED"


class LoadingStatus(NormalisedEnum):
    """The status of a shipment on one flight."""

    PENDING = "PENDING"
    LOADED = "LOADED"
    OFFLOADED = "OFFLOADED"
    DEPARTED = "DEPARTED"
    ARRIVED = "ARRIVED"
    DELIVERED = "DELIVERED"


class WorkOrderStatus(NormalisedEnum):
    """The status of maintenance work on an aircraft."""

    OPEN = "OPEN"
    IN_PROGRESS = "IN_PROGRESS"
    AWAITING_PARTS = "AWAITING_PARTS"
    DEFERRED = "DEFERRED"
    CLOSED = "CLOSED"

    @property
    def is_grounding(self) -> bool:
        """Whether the work keeps the aircraft on the ground. Deferred work may wait; closed work is done."""
        return self not in (WorkOrderStatus.DEFERRED, WorkOrderStatus.CLOSED)


class DisruptionKind(NormalisedEnum):
    """The kind of disruption: a delay, a cancellation or a change of aircraft."""

    DELAY = "delay"
    CANCEL = "cancel"
    SWAP = "swap"


class CrewPosition(NormalisedEnum):
    """Crew positions.

    The design document stores a Captain as "1" and a First Officer as "2"; the rest continue the count.
    """

    CAPTAIN = "1"
    FIRST_OFFICER = "2"
    RELIEF_PILOT = "3"
    CABIN_MANAGER = "4"
    CABIN_CREW = "5"

    @property
    def label(self) -> str:
        """The position in words, such as First officer."""
        return self.name.replace("_", " ").capitalize()

    @property
    def is_flight_deck(self) -> bool:
        """Whether the position is a pilot's: captain, first officer or relief pilot."""
        return self in (CrewPosition.CAPTAIN, CrewPosition.FIRST_OFFICER, CrewPosition.RELIEF_PILOT)


class ReputationRisk(NormalisedEnum):
    """The risk that a disrupted passenger poses to the airline's reputation, highest first."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class MelCategory(NormalisedEnum):
    """Categories of the minimum equipment list: how long a repair may be deferred."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"

    @property
    def days(self) -> int | None:
        """Calendar days after the day of discovery; None for category A, whose items set their own limit."""
        return MEL_DAYS[self]


class CargoSpecialHandling(NormalisedEnum):
    """IATA special handling codes (Cargo-IMP). The smaller the priority, the later the cargo is offloaded."""

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
        """The code in words."""
        return HANDLING_CODES[self][1]

    @property
    def priority(self) -> int:
        """The urgency from 1, the most urgent. Several codes may share one."""
        return HANDLING_CODES[self][0]

    @property
    def is_special(self) -> bool:
        """Whether the code is any other than general cargo."""
        return self is not CargoSpecialHandling.GEN


TRACKING_POINTS: Mapping[BaggageStatus, str] = MappingProxyType(
    {
        BaggageStatus.CHECKED_IN: "acceptance",
        BaggageStatus.LOADED: "load",
        BaggageStatus.TRANSFER: "transfer",
        BaggageStatus.DELIVERED: "return",
    }
)

# FAA MMEL policy letter PL-25 and EASA CS-MMEL: consecutive calendar days, the day of discovery excluded.
MEL_DAYS: Mapping[MelCategory, int | None] = MappingProxyType(
    {MelCategory.A: None, MelCategory.B: 3, MelCategory.C: 10, MelCategory.D: 120}
)

# The priorities are working values of this project: life first, then perishables, valuables and the rest.
HANDLING_CODES: Mapping[CargoSpecialHandling, tuple[int, str]] = MappingProxyType(
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

# Spellings used by carriers, reservation systems (AIRIMP) and Cargo-IMP. Case and the characters blank,
# hyphen, underscore and full stop are ignored.
OTHER_SPELLINGS: Mapping[type[NormalisedEnum], Mapping[str, str]] = MappingProxyType(
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


def encode_risk_rank(risk: str | ReputationRisk) -> str:
    """Encode a risk, in any spelling, as a sort key such as 1#HIGH.

    The words alone would sort as HIGH, LOW, MEDIUM.
    """
    known = ReputationRisk(risk)
    return f"{list(ReputationRisk).index(known) + 1}{RANK_SEPARATOR}{known}"


def parse_risk_rank(rank: str) -> ReputationRisk:
    """Return the risk in a sort key such as 1#HIGH. Raise ValueError if number and word disagree."""
    risk = ReputationRisk(rank.partition(RANK_SEPARATOR)[2])
    if rank != encode_risk_rank(risk):
        raise ValueError(f"Invalid risk_rank {rank!r}: expected {encode_risk_rank(risk)!r}.")
    return risk


def compute_repair_due(category: str | MelCategory, discovered: date) -> date | None:
    """Return the last day on which the aircraft may fly with the defect; None if the MEL item sets it."""
    days = MelCategory(category).days
    return None if days is None else discovered + timedelta(days=days)


@cache
def _get_spellings(kind: type[NormalisedEnum]) -> Mapping[str, str]:
    """Return the stored value of every accepted spelling, keyed by its folded form."""
    spellings = {
        _fold_spelling(text): member.value for member in kind for text in (member.name, member.value)
    }
    for stored, others in OTHER_SPELLINGS.get(kind, {}).items():
        spellings |= {_fold_spelling(other): stored for other in others.split()}
    return spellings


def _fold_spelling(text: str) -> str:
    """Return the text in lower case without blanks, hyphens, underscores and full stops."""
    return re.sub(r"[\s_\-.]", "", text).lower()
