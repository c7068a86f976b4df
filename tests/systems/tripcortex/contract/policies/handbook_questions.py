"""Travellers' questions, each with the sections of the public travel handbook that answer it.

They were written from the handbook alone, before any search, and are not changed: a miss is for the search to
fix. A section is named by its file and the beginning of its heading.
"""

from __future__ import annotations

from typing import Final, NamedTuple

FAQ: Final = "travel-guide-faq.md"
TRAVEL: Final = "travel-guide-3-travel.md"
BOOK: Final = "travel-guide-2-book-travel.md"
REIMBURSE: Final = "travel-guide-4-reimbursement.md"
AMEND: Final = "travel-guide-a-amended-authorizations.md"
EMAILS: Final = "travel-guide-email-templates.md"
CONCUR: Final = "first-time-travel-get-in-concur.md"
PRE_OLU: Final = "first-time-travel-get-in-concur-pre-olu.md"


class HandbookQuestion(NamedTuple):
    """A question, and the sections that answer it as file and start of the heading."""

    question: str
    sections: tuple[tuple[str, str], ...]


QUESTIONS: Final = (
    HandbookQuestion(
        "Which fare category should I pick when the tool shows me several kinds of government fares?",
        ((FAQ, "How to Choose a Flight"),),
    ),
    HandbookQuestion(
        "Can I take a cheaper ticket that cannot be refunded?",
        ((FAQ, "How to Choose a Flight"),),
    ),
    HandbookQuestion(
        "I need both a train and a plane on the same trip, how do I reserve that?",
        ((FAQ, "Enter your Destination"),),
    ),
    HandbookQuestion(
        "How expensive may my hotel room be per night?",
        ((FAQ, "How to Book a hotel in Concur"),),
    ),
    HandbookQuestion(
        "I have not got my travel card yet. How do I reserve a hotel room?",
        ((FAQ, "Book lodging"), (BOOK, "Brief overview of booking travel")),
    ),
    HandbookQuestion(
        "The conference has its own block of hotel rooms, may I reserve there directly?",
        ((FAQ, "Can I book outside of Concur"),),
    ),
    HandbookQuestion(
        "What size of rental car am I allowed to take?",
        ((FAQ, "How to Book A Rental Car in Concur"),),
    ),
    HandbookQuestion(
        "Do I have to buy collision insurance for the rental?",
        ((FAQ, "How to Book A Rental Car in Concur"),),
    ),
    HandbookQuestion(
        "Do I need someone's okay before I rent a car?",
        ((FAQ, "Booking a Rental Car"), (FAQ, "How to Justify Rental Cars")),
    ),
    HandbookQuestion(
        "What should I write as the name of the trip if it is for a client project?",
        ((FAQ, "How to Complete Your Trip Information"),),
    ),
    HandbookQuestion(
        "I want to drive my own car instead, what do I have to explain?",
        ((FAQ, "How to Justify Rental Cars"), (TRAVEL, "Mileage, Parking, and Tolls")),
    ),
    HandbookQuestion(
        "By what time of day must my request be in so that it is approved today?",
        ((FAQ, "How to Stamp and Submit"), (BOOK, "Brief overview of finalizing approvals")),
    ),
    HandbookQuestion(
        "What do the fail and hardfail results of the pre-audit mean?",
        ((FAQ, "How to Stamp and Submit"),),
    ),
    HandbookQuestion(
        "My flight still has no ticket number three days ahead. Should I worry?",
        ((FAQ, "How to Stamp and Submit"), (AMEND, "Changes made before going to the airport")),
    ),
    HandbookQuestion(
        "What must be in the e-mail in which I ask my boss to approve a trip?",
        (
            (FAQ, "How to secure authorizing official approval"),
            (EMAILS, "Email Template for Individual Travel"),
        ),
    ),
    HandbookQuestion(
        "Who signs off my travel when it is billed to a customer?",
        ((FAQ, "Who is my authorizing official"),),
    ),
    HandbookQuestion(
        "My trip serves two different projects with a weekend in the middle. Who pays for the weekend?",
        ((FAQ, "What if I am traveling for multiple projects"),),
    ),
    HandbookQuestion(
        "I would like to go to a conference, how does that get approved?",
        ((FAQ, "How can I get my travel approved to attend"), (EMAILS, "Note about travel to a training")),
    ),
    HandbookQuestion(
        "A colleague goes in my place now. What do we have to send?",
        ((FAQ, "What if who is traveling changes"),),
    ),
    HandbookQuestion(
        "Can I stay a few more days for vacation after the business meeting?",
        ((FAQ, "What if I am extending travel for personal reasons"),),
    ),
    HandbookQuestion(
        "May I fly back to my parents' place rather than to where I live?",
        ((FAQ, "What if I am returning to or traveling from"),),
    ),
    HandbookQuestion(
        "How many weeks ahead do I have to ask for a trip abroad?",
        ((FAQ, "International travel"), (FAQ, "What if I am returning to or traveling from")),
    ),
    HandbookQuestion(
        "May I telework from another country while I am on holiday?",
        ((FAQ, "International travel"),),
    ),
    HandbookQuestion(
        "How do I work out roughly what the trip is going to cost?",
        ((FAQ, "How should I estimate my expenses"),),
    ),
    HandbookQuestion(
        "My approved trip does not show up in the list when I want to start the voucher.",
        ((FAQ, "What if I can't find my authorization"),),
    ),
    HandbookQuestion(
        "How do I claim taxi rides in my home city when I have not been on a trip?",
        (
            (FAQ, "How do I create a local or miscellaneous voucher"),
            (REIMBURSE, "Brief overview of vouchers"),
        ),
    ),
    HandbookQuestion(
        "What is the difference between IBA, CBA and CASH?",
        ((FAQ, "Selecting payment type"),),
    ),
    HandbookQuestion(
        "Where do I upload the hotel bill?",
        ((FAQ, "Attaching receipts"), (FAQ, "How should I claim hotels and lodging taxes")),
    ),
    HandbookQuestion(
        "Which costs can I claim without showing any bill?",
        ((FAQ, "Simple expenses"), (FAQ, "Expenses requiring further justification")),
    ),
    HandbookQuestion(
        "From what amount on do I need to keep the receipt?",
        ((TRAVEL, "Which receipts must I keep"), (FAQ, "Expenses requiring receipts")),
    ),
    HandbookQuestion(
        "How much food money do I get on the day I leave and the day I come home?",
        (
            (FAQ, "How should I claim meals and incidental expenses"),
            (TRAVEL, "Meals and Incidental Expenses (M&IE)"),
        ),
    ),
    HandbookQuestion(
        "I paid for dinner with the government card. How do I put that in my voucher?",
        (
            (FAQ, "How should I claim meals paid on the travel card"),
            (TRAVEL, "M&IE and use of the GSA travel card"),
        ),
    ),
    HandbookQuestion(
        "How do I take the per diem off for the private days at the end?",
        (
            (FAQ, "How can I remove extra days at personal expense"),
            (FAQ, "Additional step if you are extending travel for personal reasons"),
        ),
    ),
    HandbookQuestion(
        "The room tax is lumped together with the nightly rate, how should I enter it?",
        ((FAQ, "How should I claim hotels and lodging taxes"),),
    ),
    HandbookQuestion(
        "I bought a train ticket myself on the web. Will I get the money back?",
        ((FAQ, "How should I claim air or Amtrak booked outside of Concur"),),
    ),
    HandbookQuestion(
        "Is liability insurance for managers paid back?",
        ((FAQ, "How can I get reimbursed for professional liability insurance"),),
    ),
    HandbookQuestion(
        "What comment do I have to write for a cab ride from the airport to the office?",
        ((FAQ, "How should I claim local transportation expenses"),),
    ),
    HandbookQuestion(
        "The bank says I still owe money on the government card. Do I pay that myself?",
        ((FAQ, "I received a bill for an outstanding balance"),),
    ),
    HandbookQuestion(
        "There is a credit on my card, how do I get it paid out?",
        ((FAQ, "Positive balance on travel card"),),
    ),
    HandbookQuestion(
        "It has been two weeks and I have not been paid back. Whom do I write to?",
        ((FAQ, "My reimbursement never arrived"),),
    ),
    HandbookQuestion(
        "I forgot an expense and my voucher has gone through already.",
        ((FAQ, "How do I amend my voucher after it is approved"),),
    ),
    HandbookQuestion(
        "Where do I send a check if I was paid too much?",
        ((FAQ, "How do I amend my voucher after it is approved"),),
    ),
    HandbookQuestion(
        "Must I use the government card for everything I buy on a trip?",
        ((TRAVEL, "Use your travel card when possible"), (TRAVEL, "M&IE and use of the GSA travel card")),
    ),
    HandbookQuestion(
        "Are federal employees free from state taxes on hotel stays?",
        ((TRAVEL, "Request tax exemption where available"),),
    ),
    HandbookQuestion(
        "Will two suitcases be paid for?",
        (
            (TRAVEL, "Baggage fees"),
            (FAQ, "Expenses requiring further justification"),
            (FAQ, "Simple expenses"),
        ),
    ),
    HandbookQuestion(
        "Can I expense the wifi on the plane?",
        ((TRAVEL, "Internet service"), (FAQ, "Simple expenses")),
    ),
    HandbookQuestion(
        "I am away for a week, may I have my shirts washed at the government's cost?",
        ((TRAVEL, "Laundry expenses"), (FAQ, "Simple expenses")),
    ),
    HandbookQuestion(
        "Is parking at the airport paid back if I drive there?",
        ((TRAVEL, "Mileage, Parking, and Tolls"), (FAQ, "How to Justify Rental Cars")),
    ),
    HandbookQuestion(
        "How soon after coming home do I have to hand in my expenses?",
        ((TRAVEL, "Don't forget about vouchers"),),
    ),
    HandbookQuestion(
        "My plane is cancelled and I am standing at the gate. What are my options?",
        ((AMEND, "Changes made at the airport"), (PRE_OLU, "What happens if my flight gets cancelled")),
    ),
    HandbookQuestion(
        "I want another flight and the ticket has been issued already. Whom do I call?",
        ((AMEND, "Changes made before going to the airport"),),
    ),
    HandbookQuestion(
        "The trip became more expensive than planned. From which increase on is a new approval needed?",
        ((AMEND, "Amended authorizations and re-approvals"),),
    ),
    HandbookQuestion(
        "How do I change the dates of a trip in the system by hand?",
        ((AMEND, "Changing trip dates or destinations"), (AMEND, "Manually amending an authorization")),
    ),
    HandbookQuestion(
        "Which courses do I have to finish before I get an account for booking?",
        ((CONCUR, "2. Complete Required Training"),),
    ),
    HandbookQuestion(
        "How do I get a vendor number for travel?",
        ((CONCUR, "1. Get a travel vendor ID"),),
    ),
    HandbookQuestion(
        "Is there a sample message to ask for approval for a whole team?",
        ((EMAILS, "Email Template for Group Travel"),),
    ),
)
