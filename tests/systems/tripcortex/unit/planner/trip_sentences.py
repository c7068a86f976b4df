"""Further sentences and outcomes: corrections, deadlines, weeks, airlines, currencies, airports.

`sentences` has the first sets and says how its cases are written.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from tests.systems.tripcortex.unit.planner.sentences import Asks, Expected, Plan, Refuses, Request
from tripcortex.model.entities import Cabin

NYC: Final = ("LGA", "EWR")
LON: Final = ("LGW", "STN", "LTN", "LCY", "SEN")

# Said on Tuesday 10 March 2026 in Boston, unless the case says otherwise.
TRIP_SENTENCES: Final[tuple[tuple[Request, Expected], ...]] = (
    # --- relative days
    (Request("One way to Denver a fortnight today"), Plan("DEN", "2026-03-24")),
    (Request("Denver, two weeks tomorrow, one way"), Plan("DEN", "2026-03-25")),
    (Request("A week on Friday to Denver, back that Sunday"), Plan("DEN", "2026-03-20", "2026-03-22")),
    (Request("Denver the Monday after next, one way"), Plan("DEN", "2026-03-23")),
    (Request("Denver the Friday after next, one way"), Asks(("departure_date",), ("2026-03-20",))),
    (Request("Denver next week: out Wednesday, back Friday"), Plan("DEN", "2026-03-18", "2026-03-20")),
    (Request("Denver next month on the 5th, home on the 9th"), Plan("DEN", "2026-04-05", "2026-04-09")),
    (Request("Denver on the first Monday in April, one way"), Plan("DEN", "2026-04-06")),
    (Request("Denver the last Friday of June, one way"), Plan("DEN", "2026-06-26")),
    (Request("Denver for the day after tomorrow, one way"), Plan("DEN", "2026-03-12")),
    (Request("Denver 21.4. - 23.4."), Plan("DEN", "2026-04-21", "2026-04-23")),
    (Request("Denver 14 Apr / 18 Apr"), Plan("DEN", "2026-04-14", "2026-04-18")),
    (Request("Denver 8 April, 12 April back"), Plan("DEN", "2026-04-08", "2026-04-12")),
    (Request("Denver on 2/12/2026, one way", now="2026-11-10T10:00:00-05:00"), Plan("DEN", "2026-12-02")),
    (Request("I'd like to go to Denver the week of April 6, one way"), Asks(("departure_date",))),
    (Request("Denver on Monday, home on the last flight Tuesday"), Plan("DEN", "2026-03-16", "2026-03-17")),
    # --- there and back on one day
    (Request("Denver on Monday, there and back in a day"), Plan("DEN", "2026-03-16", "2026-03-16")),
    (
        Request("Denver on Monday morning and back in the evening"),
        Plan("DEN", "2026-03-16", "2026-03-16", part="morning"),
    ),
    (
        Request("Meeting in Denver on Monday, fly me there and back the same day"),
        Plan("DEN", "2026-03-16", "2026-03-16"),
    ),
    # --- one way
    (Request("Denver on Monday, single please"), Plan("DEN", "2026-03-16")),
    (Request("Denver on Monday, just one direction"), Plan("DEN", "2026-03-16")),
    (Request("Denver on Monday, no return flight needed"), Plan("DEN", "2026-03-16")),
    # --- nights
    (
        Request("Overnight to Zurich on 8 April, return 12 April"),
        Plan("ZRH", "2026-04-08", "2026-04-12", part="night"),
    ),
    (Request("Denver on Monday, staying exactly one week"), Plan("DEN", "2026-03-16", "2026-03-23")),
    # --- corrections
    (Request("Denver on Monday - no wait, Wednesday - one way"), Plan("DEN", "2026-03-11")),
    (Request("Dallas, sorry, I mean Denver on 8 April, one way"), Plan("DEN", "2026-04-08")),
    (
        Request("Denver on 8 April, back on the 10th, sorry, on the 11th"),
        Plan("DEN", "2026-04-08", "2026-04-11"),
    ),
    # --- deadlines
    (Request("I need to be in Denver by 2 pm on Monday, one way"), Plan("DEN", "2026-03-16")),
    (Request("Denver on Monday, leave by 2 pm, one way"), Plan("DEN", "2026-03-16", part="afternoon")),
    (
        Request("Board meeting in Denver on Monday, need to land by 1pm, back Tuesday"),
        Plan("DEN", "2026-03-16", "2026-03-17"),
    ),
    (
        Request("I have to be in London by 9 am on 8 April, back on the 10th"),
        Asks(("departure_date",), ("2026-04-07", "2026-04-08")),
    ),
    (
        Request("I have to be in London by 9 am on 8 April, back on the 10th", answers=("2026-04-07",)),
        Plan("LHR", "2026-04-07", "2026-04-10", to_others=LON),
    ),
    (
        Request("The congress in Denver is from 8 to 11 April; fly me there on 7 April and back on 12 April"),
        Plan("DEN", "2026-04-07", "2026-04-12"),
    ),
    # --- airlines
    (
        Request("Seattle to Anchorage on 8 April, one way, Alaska"),
        Plan("ANC", "2026-04-08", frm="SEA", vendors=("AS",)),
    ),
    (Request("TAP to Porto on 8 April, one way"), Plan("OPO", "2026-04-08", vendors=("TP",))),
    (Request("Denver on 8 April, one way, UA"), Plan("DEN", "2026-04-08", vendors=("UA",))),
    (
        Request("Doha on 8 April, back 12 April, Qatar or Emirates"),
        Plan("DOH", "2026-04-08", "2026-04-12", vendors=("QR", "EK")),
    ),
    (
        Request("do not book Ryanair, book Iberia to Madrid for 8 April, back 9 April"),
        Plan("MAD", "2026-04-08", "2026-04-09", vendors=("IB",), avoided=("FR",)),
    ),
    # --- cabins and money
    (
        Request("London on 8 April, back 9 April, United in premium economy"),
        Plan(
            "LHR",
            "2026-04-08",
            "2026-04-09",
            cabin=Cabin.premium_economy,
            cabin_asked=True,
            to_others=LON,
            vendors=("UA",),
        ),
    ),
    (Request("First class to Denver on 8 April, return in economy on 9 April"), Asks(("cabin_class",))),
    (Request("Denver on 8 April, one way, max 45000 rupees"), Plan("DEN", "2026-04-08")),
    (Request("Denver on 8 April, one way, 300 dollars tops"), Plan("DEN", "2026-04-08", budget=Decimal(300))),
    # --- places
    (
        Request("Manchester to Edinburgh on 8 April, one way", home=None),
        Plan("EDI", "2026-04-08", frm="MAN"),
    ),
    (Request("San Jose (California) on 8 April, one way"), Plan("SJC", "2026-04-08")),
    (
        Request("New York to Denver on 8 April, one way", home="EWR"),
        Plan("DEN", "2026-04-08", frm="EWR", from_others=("JFK", "LGA")),
    ),
    (
        Request("New York on 8 April, LaGuardia please, one way", home="DEN"),
        Plan("LGA", "2026-04-08", frm="DEN"),
    ),
    (Request("Boston - Austin - Boston, 8 April / 12 April"), Plan("AUS", "2026-04-08", "2026-04-12")),
    (Request("Denver on Monday, then Seattle on Wednesday, home on Friday"), Refuses("multi_city")),
    (
        Request("Don't route me through Charlotte: Boston to Miami 8-12 April"),
        Plan("MIA", "2026-04-08", "2026-04-12"),
    ),
    (Request("I've got to be in Denver on 8 April, one way"), Plan("DEN", "2026-04-08")),
    (Request("Denver on 8 April, back 9 April, and a rental car"), Plan("DEN", "2026-04-08", "2026-04-09")),
    (Request("Denver on 8 April, back 9 April, no hotel needed"), Plan("DEN", "2026-04-08", "2026-04-09")),
    (
        Request("For the client workshop in Denver: out 8 April, back 9 April"),
        Plan("DEN", "2026-04-08", "2026-04-09"),
    ),
    (Request("get me to the sales kickoff on Monday, back on Wednesday"), Asks(("destination",))),
    # --- typos
    (Request("fligt to Denver on wendesday, retruning firday"), Plan("DEN", "2026-03-11", "2026-03-13")),
)
