"""Synonyms that link travellers' words with policies' words; `retrieval` adds them to a question. Pure.

A policy says "lodging", "personally owned vehicle" and "authorizing official" where an employee says hotel,
my car and my boss. A large model knows that; the local one hardly does, and full-text search does not. Each
line lists the words for one concept. A question with one of them is searched with all of them; added words
weigh less. The words are those of business travel in general and belong to no particular policy: a company
can add the names of its own tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# A phrase that begins with this sign is looked for in questions and not added: its words are too general.
MATCHED_ONLY: Final = "~"
# One concept per line; several words form a phrase, and a star matches any ending.
SYNONYM_LINES: Final = """
flight*, fly*, plane*, airplane*, aircraft, airfare, air travel
airline*, carrier*
cabin*, business class, first class, economy, economy class, premium economy, coach, class of service, class of travel, seat, seats, sit, fly business, flying business, upgrade*
train*, rail, railway, amtrak
hotel*, lodging, accommodation*, room, rooms, overnight stay, place to stay
rental car*, rent a car, hire car, hired car, car rental, rental vehicle
taxi*, cab, cabs, uber, lyft, ride-share, ride share, local transportation, ground transportation
bus, subway, metro, tram, public transit, public transport, public transportation
own car, my car, private car, drive, driving, mileage, miles, privately-owned vehicle, personal vehicle, pov
park, parking, toll, tolls
luggage, baggage, suitcase*, checked bag*, bags, bag
meal*, food, eat, dinner, lunch, breakfast, restaurant*, per diem, meal allowance, daily allowance, subsistence, m&ie, incidental expenses
laundry, wash, washed, washing, dry cleaning, shirts
wifi, wi-fi, internet, online access, data plan, hotspot
receipt*, bill, bills, invoice*, proof of payment
reimburse*, paid back, pay back, money back, repaid, be refunded, covered by the company, paid for, will be paid
expense*, cost, costs, spending, charge*
voucher*, expense report, expense claim, hand in my expenses, claim my expenses, hand in, settle
claim*, expense it, put in, submit*, file, expense report, settlement
approve*, approval*, sign off, signs off, ok, okay, permission, authorize*, authorization, allowed to, consent, agree*, permit*
boss, manager*, supervisor*, superior, line manager, approver*, approving official, authorizing official, director*
customer*, client*, billable, billed to, account manager, project budget
conference*, event*, seminar*, workshop*, speaking engagement, training
course*, classes, training*, certificate*, e-learning
abroad, overseas, foreign, international, another country, other countries, outside the country
vacation*, holiday*, leave, private days, personal days, personal travel, personal reasons, own expense, extend, extending, stay longer, more days, extra days
wife, husband, spouse*, partner, children, kids, family member*, accompany*, come along, companion*
family, parents, elsewhere, another place, other than home, different city, location other than home
colleague*, coworker*, teammate*, in my place, instead of me, somebody else travels, who is traveling, different traveler
change*, amend*, modify, rebook*, re-book*, reschedule*, another flight, different flight
cancel*, cancelled flight, delayed, delay*, missed connection, stranded
standing at the gate, at the gate, at the airport
estimate*, roughly, approximately, work out, calculate, how expensive, what it costs, is going to cost
template*, sample message, sample, example, draft, email template
e-mail*, email*, message*, mail
team*, group*, several people, whole team
travel card, government card, company card, corporate card, credit card, charge card
owe, owed, outstanding balance, unpaid, balance due, overdue
credit on my card, positive balance, in credit
paid too much, overpaid, over-reimbursed, too much money
not been paid, never arrived, still waiting for my money, have not received, not been reimbursed
deadline*, how soon, how quickly, by when, until when, too late, due, within, no later than, business days, expire*, lapse*
coming home, come home, coming back, come back, getting back, after the trip, upon return, return*
does not show up, not listed, cannot find, can't find, missing from the list, disappeared
bought myself, booked myself, on the web, on my own, outside of the booking tool, booked outside, personally booked
book*, reserve*, reservation*
cannot be refunded, non-refundable, nonrefundable, no refund
cheap*, cheapest, lowest, inexpensive, low cost
~expensive, limit*, maximum, ~max, ~most that, ~the most, cap, ~caps, ceiling*, allowance*, ~price limit, ~how much
tax, taxes, tax exempt*, exemption, free from tax, lodging tax
insurance, coverage, collision damage waiver, liability
upload, attach*, add a file
by hand, manually, oneself
account, access, login, set up in the system
forgot, missed, left out
round trip, round-trip, ~return ticket, ~return flight, ~return fare, return, both ways, ~both directions, there and back, ~and back
one-way, one way, single trip, each way, one direction, per sector, per direction
~over the limit, ~over the cap, ~too high, ~too expensive, above, ~over, exceed*, ~more than the limit, ~over budget, ~higher
in advance, ~ahead, ~days before, ~weeks before, ~how early, ~how soon before, notice, lead time, advance booking, ~late booking, ~booking time
emergency, emergencies, hospital, sick, ill, illness, death, funeral, bereavement, compassionate, urgent*
medical, doctor*, disability, health, pregnan*, injur*, bad back, wheelchair
security, advisory, risk, dangerous, safe, restricted, prohibited, banned, sanction*, clearance, not allowed
grade*, level*, band*, tier*, senior, job level, employee level, staff
overnight, night flight*, red-eye, red eye, late at night
frequent flyer, loyalty, miles, points, status
alcohol, wine, beer, drink*
phone, roaming, sim, mobile data
visa, passport, vaccination*
tip, tips, gratuit*
candidate*, applicant*, interview*, guest*
fuel, petrol, gasoline
"""  # noqa: E501


def find_synonyms(question: str) -> list[str]:
    """Return the words of every line that the question matches, in line order, without the question's own."""
    asked = f" {_normalize(question)} "
    found: dict[str, None] = {}
    for line in _GROUPS:
        if any(each.search(asked) for each in line.patterns):
            found.update(dict.fromkeys(line.words))
    return [each for each in found if f" {each} " not in asked]


class _SynonymGroup:
    """The words of one line, and a pattern for each that matches its forms."""

    def __init__(self, text: str) -> None:
        phrases = [each.strip() for each in text.split(",")]
        self.patterns = [_compile_phrase(each) for each in phrases]
        self.words = [
            _normalize(each.replace("*", "")) for each in phrases if not each.startswith(MATCHED_ONLY)
        ]


def _normalize(text: str) -> str:
    """Return the words in lower case, separated by single spaces."""
    return " ".join(re.findall(r"[a-z0-9&'-]+", text.lower().replace("’", "'")))


def _compile_phrase(phrase: str) -> re.Pattern[str]:
    """Compile a phrase; a star matches any ending."""
    plain = _normalize(phrase.replace("*", " STAR")).replace(" star", r"\w*")
    return re.compile(rf"(?<![\w-]){plain}(?![\w-])")


def _parse_groups(text: str) -> Iterable[_SynonymGroup]:
    return [_SynonymGroup(line) for line in text.strip().splitlines()]


_GROUPS: Final = tuple(_parse_groups(SYNONYM_LINES))
