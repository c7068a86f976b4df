"""Further questions about the handbook: they show how the search handles questions that it was not fitted to.

They were written before the words of `tripcortex.domain.policy_search.synonyms` were chosen,
and asked once after that.
"""

from __future__ import annotations

from typing import Final

from tests.contract.tripcortex_knowledge.handbook_questions import (
    AMEND,
    BOOK,
    CONCUR,
    EMAILS,
    FAQ,
    REIMBURSE,
    TRAVEL,
    Asked,
)

HELD_OUT: Final = (
    Asked(
        "Do I type the city I am going to or the one I start from first?", ((FAQ, "Enter your Destination"),)
    ),
    Asked("How far in advance should I buy to get the discounted fare?", ((FAQ, "How to Choose a Flight"),)),
    Asked(
        "Does the rental company charge extra for young drivers?",
        ((FAQ, "How to Book A Rental Car in Concur"),),
    ),
    Asked("Which rental companies may I use?", ((FAQ, "How to Book A Rental Car in Concur"),)),
    Asked(
        "How do I hide hotels that are too expensive in the results?",
        ((FAQ, "How to Book a hotel in Concur"),),
    ),
    Asked(
        "Who pays if the hotel I found elsewhere has a cancellation fee?",
        ((FAQ, "Can I book outside of Concur"),),
    ),
    Asked(
        "What is the purpose I should choose when the trip is not for a conference?",
        ((FAQ, "How to Complete Your Trip Information"),),
    ),
    Asked(
        "How long does it take until my voucher has been looked at?",
        ((FAQ, "How to Stamp and Submit"), (REIMBURSE, "Brief overview of vouchers")),
    ),
    Asked(
        "From how many people on is it a large gathering?",
        ((FAQ, "How can I get my travel approved to attend"),),
    ),
    Asked("Who approves travel for login.gov?", ((FAQ, "Who is my authorizing official"),)),
    Asked("How do I delete an expense that I entered by mistake?", ((FAQ, "Deleting expenses"),)),
    Asked(
        "What do I choose as the payment type when I paid with my own credit card?",
        ((FAQ, "Selecting payment type"),),
    ),
    Asked(
        "Do I need a receipt for the subway?",
        (
            (FAQ, "Simple expenses"),
            (FAQ, "Expenses requiring receipts"),
            (FAQ, "How should I claim local transportation expenses"),
        ),
    ),
    Asked(
        "Is a map needed when I claim many miles?",
        ((FAQ, "How should I claim local transportation expenses"),),
    ),
    Asked(
        "How much of the liability insurance is covered for supervisors?",
        ((FAQ, "How can I get reimbursed for professional liability insurance"),),
    ),
    Asked(
        "I get home after midnight, what about my meal allowance for that day?",
        ((TRAVEL, "Meals and Incidental Expenses (M&IE)"),),
    ),
    Asked("Can I withdraw cash with the travel card?", ((TRAVEL, "Meals and Incidental Expenses (M&IE)"),)),
    Asked("May I take a taxi to a restaurant?", ((TRAVEL, "Taxis, public transit"),)),
    Asked(
        "By how much may I go over the budget in the authorization?",
        ((TRAVEL, "Other necessary expenses"), (AMEND, "Amended authorizations and re-approvals")),
    ),
    Asked("What happens if I hand in my voucher too late?", ((TRAVEL, "Don't forget about vouchers"),)),
    Asked("Does waiting time at the airport count as work?", ((AMEND, "Changes made at the airport"),)),
    Asked(
        "When are tickets for contract flights issued?",
        ((AMEND, "Changes made before going to the airport"), (FAQ, "How to Stamp and Submit")),
    ),
    Asked(
        "Which help desk do I call when the amended authorization is wrong?",
        ((AMEND, "Amended Authorizations"),),
    ),
    Asked(
        "What am I booked through when I leave in less than three days?",
        ((BOOK, "Brief overview of booking travel"),),
    ),
    Asked(
        "Where do I mail the access form to?",
        ((CONCUR, "4. Email Completed Form"), (CONCUR, "3. Complete the CGE")),
    ),
    Asked(
        "Who has to sign the access form as my supervisor?",
        ((CONCUR, "Whose signature"), (CONCUR, "3. Complete the CGE")),
    ),
    Asked(
        "What do I write to get a trip of my own approved?",
        (
            (EMAILS, "Email Template for Individual Travel"),
            (FAQ, "How to secure authorizing official approval"),
        ),
    ),
    Asked(
        "Which voucher do I choose for day trips without a flight?",
        (
            (REIMBURSE, "Brief overview of vouchers"),
            (FAQ, "How do I create a local or miscellaneous voucher"),
        ),
    ),
)
