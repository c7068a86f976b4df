"""The text of the sample travel policy as headings, paragraphs, lists, tables and a chart to be drawn.

The company does not exist. `policy_document` holds the rules and draws the PDF. Numbers come from the rules,
so that the text always agrees with the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

COMPANY: Final = "Northwind Systems"
TITLE: Final = "Travel Policy"
EFFECTIVE: Final = "1 March 2026"

ROUTES: Final = {
    "domestic": "Domestic",
    "short_haul": "International, short haul",
    "long_haul": "International, long haul",
}
CARRIERS: Final = {"UA": "United Airlines", "DL": "Delta Air Lines"}
CABINS: Final = {"economy": "Economy", "premium_economy": "Premium economy", "business": "Business"}


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading."""

    text: str
    level: int = 1


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class BulletList:
    """A list with bullets or numbers."""

    items: tuple[str, ...]
    is_numbered: bool = False


@dataclass(frozen=True, slots=True)
class TableRows:
    """A table; the first row is the header, `widths` are relative."""

    caption: str
    rows: tuple[tuple[str, ...], ...]
    widths: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BarChart:
    """A bar chart."""

    caption: str
    names: tuple[str, ...]
    values: tuple[int, ...]
    unit: str


@dataclass(frozen=True, slots=True)
class PageStart:
    """A page break; the pages after it have one column or two."""

    is_two_columns: bool = False


Part = Heading | Text | BulletList | TableRows | BarChart | PageStart


def write_parts(rules: dict[str, Any]) -> Iterator[Part]:
    """Yield the parts of the whole document in order, with the numbers of these rules."""
    yield from _write_purpose()
    yield from _write_booking(rules)
    yield from _write_cabins(rules)
    yield from _write_fares(rules)
    yield from _write_carriers(rules)
    yield from _write_stops(rules)
    yield from _write_approvals(rules)
    yield from _write_baggage()
    yield from _write_hotels()
    yield from _write_meals()
    yield from _write_ground()
    yield from _write_changes()
    yield from _write_expenses()
    yield from _write_safety()
    yield from _write_spend()
    yield from _write_answers(rules)


def _write_purpose() -> Iterator[Part]:
    yield Heading("1 Purpose and scope")
    yield Text(
        f"This policy says how employees of {COMPANY} travel on business: what may be booked, what needs "
        "somebody's approval, what is paid back, and what is not. It holds for every employee and for "
        "contractors whose travel we pay, wherever they are based. It is written so that most trips need "
        "no question at all."
    )
    yield Text(
        f"It is effective from {EFFECTIVE} and replaces all earlier versions. Where the law of a country or "
        "a contract with a customer asks for more than this policy does, the law or the contract is "
        "followed. Trips that are paid for by a customer follow the same rules unless the customer has "
        "others in writing."
    )
    yield Heading("1.1 What we expect of a traveller", 2)
    yield BulletList(
        (
            "Ask first whether the trip is needed. A call costs nothing and nobody loses a day.",
            "Spend the company's money as carefully as your own.",
            "Book early, book through the travel assistant, and keep to what you booked.",
            "Tell your manager and the travel desk as soon as plans change.",
        )
    )


def _write_booking(rules: dict[str, Any]) -> Iterator[Part]:
    soft, hard = rules["advance_purchase_days"]["soft"], rules["advance_purchase_days"]["hard"]
    yield Heading("2 Booking")
    yield Heading("2.1 Where trips are booked", 2)
    yield Text(
        "All flights are booked through Trip Cortex, the travel assistant, or through the travel desk. A "
        "flight that was booked elsewhere is not paid back, even if it was cheaper: we would not know "
        "where you are when something happens, and could not use the ticket again when a trip is cancelled."
    )
    yield Text(
        "Describe the trip in a sentence. The assistant shows up to three flights that keep to this policy, "
        "says which section allows them, and books the one that you choose. Nothing is bought before you "
        "have chosen."
    )
    yield Heading("2.2 Advance purchase", 2)
    yield Text(
        f"Flights are booked at least {soft} days before departure. A flight that leaves in less than {soft} "
        "days needs the approval of your line manager, who will want to know why the trip could not be "
        "planned earlier. "
        f"The assistant does not book a flight that leaves in less than {hard} day: call the travel desk, "
        "which is there at all hours."
    )
    yield Text(
        "One trip at a time: a request is answered, chosen or cancelled before the next is begun. A choice "
        "that nobody makes within thirty minutes ends by itself, since the prices will have moved."
    )


def _write_cabins(rules: dict[str, Any]) -> Iterator[Part]:
    yield Heading("3 Cabin by flight duration")
    yield Text(
        "The cabin depends on the scheduled duration of the longest single flight of a direction, from "
        "departure to arrival, without the time spent at airports in between. Title and seniority do not "
        "matter."
    )
    yield TableRows(
        "Table 1: Highest cabin by duration of the flight", tuple(_write_cabin_rows(rules)), (3, 2, 3)
    )
    yield Text(
        "A lower cabin is always welcome. First class is never booked, whatever the duration and whoever "
        "pays. Upgrades with miles or money of your own are yours to make, as long as the fare that the "
        "company pays stays within the policy."
    )
    yield Text(
        "A medical need for another cabin is taken as seriously as any other: send the request to the people "
        "team, not to your manager. It is granted once, holds for a year, and its reason is kept by the "
        "people team alone."
    )


def _write_cabin_rows(rules: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield ("Longest flight", "Highest cabin", "Remark")
    below = 0
    remarks = {
        "economy": "All domestic flights, too",
        "premium_economy": "Economy where it is not offered",
        "business": "Overnight flights above all",
    }
    for row in rules["cabins"]:
        most = row["max_duration_hours"]
        span = f"{below} to under {most} hours" if below else f"Under {most} hours"
        yield (span if most else f"{below} hours and more", CABINS[row["cabin"]], remarks[row["cabin"]])
        below = most


def _write_fares(rules: dict[str, Any]) -> Iterator[Part]:
    far = f"{rules['long_haul_km']:,}"
    yield Heading("4 Fare caps")
    yield Text(
        "A fare cap is the most that one traveller's whole trip may cost in the air, there and back, taxes "
        "and fees included, in US dollars. Caps depend on the kind of route and on the notice: how many "
        "days before departure the "
        f"flight is booked. Long haul means international routes of {far} km and more, short haul all "
        "shorter ones; domestic is within one country, however far."
    )
    yield TableRows(
        "Table 2: Fare caps in USD by route and notice", tuple(_write_cap_rows(rules)), (3, 2, 2, 2)
    )
    yield Text(
        "A fare above its cap needs approval, and is never approved by silence. Where every flight on the "
        "day is above the cap, move the trip by a day or take a "
        "flight at another time: the assistant looks for those, too."
    )


def _write_cap_rows(rules: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    notices = sorted({row["days_ahead_min"] for row in rules["caps"]}, reverse=True)
    caps = {(row["route"], row["days_ahead_min"]): row["max_usd"] for row in rules["caps"]}
    yield ("Route", *(_format_notice(notices, place) for place in range(len(notices))))
    for route, name in ROUTES.items():
        yield (name, *(f"{caps[route, days]:,} USD" for days in notices))


def _format_notice(notices: list[int], place: int) -> str:
    if place == 0:
        return f"{notices[0]} days or more"
    return f"{notices[place]} to {notices[place - 1] - 1} days"


def _write_carriers(rules: dict[str, Any]) -> Iterator[Part]:
    preferred = rules["preferred_carriers"]
    names = " and ".join(CARRIERS[code] for code in preferred["carriers"])
    percent = preferred["within_percent"]
    yield Heading("5 Preferred carriers")
    yield Text(
        f"{names} are our preferred carriers. Choose one of them whenever its fare is within {percent} "
        "percent of the lowest fare that keeps to this policy: our agreements give us back more than the "
        "difference. Where no "
        f"preferred carrier is within {percent} percent, take the lowest fare, whoever flies it."
    )
    yield Text(
        "Another carrier may be chosen for a good reason, such as a non-stop flight that saves more than two "
        "hours. The reason is asked for and kept. Points and miles are yours, and are no reason."
    )
    yield BulletList(
        (
            "United Airlines: Star Alliance, hubs in Chicago, Denver, Houston, Newark and San Francisco.",
            "Delta Air Lines: SkyTeam, hubs in Atlanta, Detroit, Minneapolis and Salt Lake City.",
        )
    )


def _write_stops(rules: dict[str, Any]) -> Iterator[Part]:
    soft, hard = rules["advance_purchase_days"]["soft"], rules["advance_purchase_days"]["hard"]
    yield Heading("6 Soft and hard stops")
    yield Text(
        "What is against the policy is either a soft stop or a hard stop. A soft stop can be approved. A "
        "hard stop cannot: the trip is refused, with the section that forbids it and with what would be "
        "allowed instead."
    )
    yield TableRows(
        "Table 3: What stops a booking",
        (
            ("What is asked for", "Stop", "Who decides"),
            ("A fare above its cap", "Soft", "Line manager, expressly"),
            (f"Less than {soft} days before departure", "Soft", "Line manager, or silence"),
            ("A higher cabin than the duration allows", "Hard", "Nobody"),
            ("First class", "Hard", "Nobody"),
            (f"Less than {hard} day before departure", "Hard", "The travel desk, by phone"),
        ),
        (5, 1.5, 3),
    )


def _write_approvals(rules: dict[str, Any]) -> Iterator[Part]:
    hours = rules["approval"]["soft_deadline_hours"]
    yield Heading("7 Approvals and deadlines")
    yield Text(
        "A trip that keeps to the policy needs no approval. For a soft stop your line manager is asked at "
        "once, and sees the flight, its price, the section concerned and what would have complied. The "
        "manager approves or declines "
        f"within {hours} hours."
    )
    yield Text(
        f"A late booking that nobody has answered within {hours} hours counts as approved. A fare above its "
        "cap has to be "
        f"approved expressly: unanswered for {hours} hours, it is declined."
    )
    yield BulletList(
        (
            "You choose a flight that has a soft stop.",
            "Your line manager is asked; the flight is not booked yet.",
            "Approved, the price is checked again, and the flight is booked if it has not risen.",
            "Declined, the request ends, and nothing is bought.",
        ),
        is_numbered=True,
    )
    yield Text(
        "Nobody approves a trip of their own. A manager who travels with the employee hands the decision to "
        "their own manager. Every decision is kept for two years with the section that it rests on."
    )


def _write_baggage() -> Iterator[Part]:
    yield Heading("8 Baggage and seats")
    yield Text(
        "One checked bag is paid for on trips of more than two nights, and a second one on trips of more "
        "than ten. Overweight baggage is paid for when the weight is the company's: samples, tools, "
        "exhibition material. A seat reservation of up to 40 USD for each flight is paid for; seats with "
        "more legroom on flights of more than four "
        "hours, up to 90 USD. Wireless internet on board is paid for whenever you work."
    )


def _write_hotels() -> Iterator[Part]:
    yield Heading("9 Hotels")
    yield Text(
        "Hotels are booked for the nights that the business needs, in a standard room, at the caps of Table "
        "4. Breakfast may be part of the price. Choose a hotel near where you work, when that saves a taxi "
        "each day. Private lodging with friends or family is thanked for with a present of up to 50 USD a "
        "night."
    )
    yield TableRows(
        "Table 4: Hotel caps in USD for each night, taxes included",
        (
            ("City group", "Examples", "Cap"),
            ("A", "New York, San Francisco, London, Zurich, Tokyo, Singapore", "340 USD"),
            ("B", "Chicago, Boston, Paris, Frankfurt, Toronto, Sydney", "260 USD"),
            ("C", "Hyderabad, Warsaw, Lisbon, Dallas, Denver and all others", "190 USD"),
        ),
        (1.5, 5, 1.5),
    )
    yield Text(
        "Cancel a room that you do not need before its free cancellation ends. A no-show is paid by the "
        "traveller, unless the flight was late or cancelled."
    )


def _write_meals() -> Iterator[Part]:
    yield Heading("10 Meals and daily allowance")
    yield Text(
        "Meals are paid back by a daily allowance, without receipts: 75 USD a day in the United States and "
        "Canada, 85 USD in Europe, 70 USD elsewhere. The days of departure and return count three "
        "quarters. A meal that somebody else pays for, such as a conference dinner, takes a third off the "
        "day's allowance."
    )
    yield Text(
        "Alcohol is not paid for. A meal with customers is paid for up to 90 USD a person, against a receipt "
        "that says who was there and what it was about."
    )


def _write_ground() -> Iterator[Part]:
    yield Heading("11 Trains, cars and taxis")
    yield Text(
        "Take the train where it needs less than four hours from centre to centre; second class up to two "
        "hours, first class beyond. A rental car of the compact class is fine where no train goes, or "
        "where three or more share it. Refuel before you bring it back, and decline the insurance of the "
        "counter: ours covers you."
    )
    yield Text(
        "Your own car is paid at 0.67 USD a mile, up to what the flight would have cost. Taxis and ride "
        "services are paid for to and from the airport and after nine in the evening; otherwise public "
        "transport is expected where it exists."
    )


def _write_changes() -> Iterator[Part]:
    yield Heading("12 Changes and cancellations")
    yield Text(
        "Tell the assistant or the travel desk as soon as a trip falls away. A ticket that was booked less "
        "than 24 hours ago, for a flight at least seven days off, is cancelled for its full price. Later, "
        "its value is kept for your next trip with the same carrier. A change that the business needs is "
        "paid for; one that only the traveller wants is not."
    )
    yield Text(
        "When the carrier cancels or is late by more than three hours, the assistant looks for another "
        "flight within this policy by itself. A higher cabin is allowed when nothing else would bring you "
        "there on the day."
    )


def _write_expenses() -> Iterator[Part]:
    yield Heading("13 Expenses and receipts")
    yield Text(
        "Expenses are handed in within thirty days after the trip, with a receipt for anything above 25 USD. "
        "What comes later than ninety days is not paid back. Amounts in other currencies are converted at "
        "the rate of the day on the card statement."
    )
    yield Heading("13.1 What is not paid back", 2)
    yield BulletList(
        (
            "Fines, lost property, and insurance that the company has already.",
            "Airline lounges, except on a stay of more than four hours between two flights.",
            "Minibar, films, and sports at the hotel.",
            "Costs of a companion, and of nights added for pleasure.",
            "Carbon offsets bought by travellers: the company buys them for all flights.",
        )
    )


def _write_safety() -> Iterator[Part]:
    yield Heading("14 Safety and duty of care")
    yield Text(
        "Trips to a country with a government warning against all but essential travel are not booked "
        "without the security team. At most five employees, and at most two of the executive team, take "
        "the same flight. After a flight of more than ten hours nobody is expected to work, or to drive, "
        "before the next morning."
    )
    yield Text(
        "In an emergency call the travel desk, at all hours. It knows your flights and hotel because they "
        "were booked through it, which is the first reason for section 2."
    )


def _write_spend() -> Iterator[Part]:
    yield Heading("15 What we spend")
    yield Text(
        "The caps of this policy are looked at once a year, in the light of what was spent in the year "
        "before. Early booking made the most difference: the average domestic fare fell from the first "
        "quarter to the last as more trips were booked at least two weeks ahead."
    )
    yield BarChart(
        "Figure 1: Air travel spend in 2025 by quarter, in thousands of USD",
        ("Q1", "Q2", "Q3", "Q4"),
        (412, 368, 331, 294),
        "thousand USD",
    )


def _write_answers(rules: dict[str, Any]) -> Iterator[Part]:
    soft = rules["advance_purchase_days"]["soft"]
    percent = rules["preferred_carriers"]["within_percent"]
    yield PageStart(is_two_columns=True)
    yield Heading("16 Questions and answers")
    yield Heading("May I fly business class to Tokyo?", 2)
    yield Text(
        "Yes, if the longest flight takes ten hours or more, and the fare is within the long-haul cap of "
        "Table 2. Book early: business fares close to departure are seldom within it."
    )
    yield Heading("May I add a weekend?", 2)
    yield Text(
        "Yes. The company pays what the trip would have cost without it. Ask the assistant for both fares, "
        "keep the comparison, and pay the difference and the additional nights yourself."
    )
    yield Heading("My preferred airline is dearer. May I take it?", 2)
    yield Text(
        f"If it is United or Delta and within {percent} percent of the lowest fare, you should. Any other "
        "carrier needs a reason that has nothing to do with points."
    )
    yield Heading("The meeting was called for next week. What now?", 2)
    yield Text(
        f"Ask anyway. A flight in less than {soft} days is a soft stop: your line manager is asked, usually "
        "answers within the hour, and the flight is booked."
    )
    yield Heading("Who pays when I miss a flight?", 2)
    yield Text(
        "The company does when the way to the airport is to blame, or the meeting. You do when it was a "
        "matter of getting up. The travel desk finds the next flight in either case."
    )
    yield Heading("May my partner come along?", 2)
    yield Text(
        "Yes, at your own cost and on a booking of their own. A double room is paid for as a single one "
        "where the hotel has two prices."
    )
    yield Heading("What about bleisure in a country with a warning?", 2)
    yield Text(
        "No. Nights for pleasure are not added to trips that the security team had to allow, because the "
        "company's insurance covers the business part alone."
    )
    yield Heading("Can I be refused a trip that I must make?", 2)
    yield Text(
        "A hard stop is never lifted by a person. It is lifted by another flight, another day or another "
        "cabin. The assistant says which of these would comply, and the travel desk helps when none does."
    )
