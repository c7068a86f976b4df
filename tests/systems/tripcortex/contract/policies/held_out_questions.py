"""Held-out questions about the handbook: they measure the search on questions that it was not fitted to.

They were written before the words of `tripcortex.domain.policy_search.synonyms` were chosen, and used once
after that.
"""

from __future__ import annotations

from typing import Final

from tests.systems.tripcortex.contract.policies.handbook_questions import (
    AMEND,
    BOOK,
    CONCUR,
    EMAILS,
    FAQ,
    REIMBURSE,
    TRAVEL,
    HandbookQuestion,
)

HELD_OUT: Final = (
    HandbookQuestion(
        "Do I type the city I am going to or the one I start from first?", ((FAQ, "Enter your Destination"),)
    ),
    HandbookQuestion(
        "How far in advance should I buy to get the discounted fare?", ((FAQ, "How to Choose a Flight"),)
    ),
    HandbookQuestion(
        "Does the rental company charge extra for young drivers?",
        ((FAQ, "How to Book A Rental Car in Concur"),),
    ),
    HandbookQuestion("Which rental companies may I use?", ((FAQ, "How to Book A Rental Car in Concur"),)),
    HandbookQuestion(
        "How do I hide hotels that are too expensive in the results?",
        ((FAQ, "How to Book a hotel in Concur"),),
    ),
    HandbookQuestion(
        "Who pays if the hotel I found elsewhere has a cancellation fee?",
        ((FAQ, "Can I book outside of Concur"),),
    ),
    HandbookQuestion(
        "What is the purpose I should choose when the trip is not for a conference?",
        ((FAQ, "How to Complete Your Trip Information"),),
    ),
    HandbookQuestion(
        "How long does it take until my voucher has been looked at?",
        ((FAQ, "How to Stamp and Submit"), (REIMBURSE, "Brief overview of vouchers")),
    ),
    HandbookQuestion(
        "From how many people on is it a large gathering?",
        ((FAQ, "How can I get my travel approved to attend"),),
    ),
    HandbookQuestion("Who approves travel for login.gov?", ((FAQ, "Who is my authorizing official"),)),
    HandbookQuestion("How do I delete an expense that I entered by mistake?", ((FAQ, "Deleting expenses"),)),
    HandbookQuestion(
        "What do I choose as the payment type when I paid with my own credit card?",
        ((FAQ, "Selecting payment type"),),
    ),
    HandbookQuestion(
        "Do I need a receipt for the subway?",
        (
            (FAQ, "Simple expenses"),
            (FAQ, "Expenses requiring receipts"),
            (FAQ, "How should I claim local transportation expenses"),
        ),
    ),
    HandbookQuestion(
        "Is a map needed when I claim many miles?",
        ((FAQ, "How should I claim local transportation expenses"),),
    ),
    HandbookQuestion(
        "How much of the liability insurance is covered for supervisors?",
        ((FAQ, "How can I get reimbursed for professional liability insurance"),),
    ),
    HandbookQuestion(
        "I get home after midnight, what about my meal allowance for that day?",
        ((TRAVEL, "Meals and Incidental Expenses (M&IE)"),),
    ),
    HandbookQuestion(
        "Can I withdraw cash with the travel card?", ((TRAVEL, "Meals and Incidental Expenses (M&IE)"),)
    ),
    HandbookQuestion("May I take a taxi to a restaurant?", ((TRAVEL, "Taxis, public transit"),)),
    HandbookQuestion(
        "By how much may I go over the budget in the authorization?",
        ((TRAVEL, "Other necessary expenses"), (AMEND, "Amended authorizations and re-approvals")),
    ),
    HandbookQuestion(
        "What happens if I hand in my voucher too late?", ((TRAVEL, "Don't forget about vouchers"),)
    ),
    HandbookQuestion(
        "Does waiting time at the airport count as work?", ((AMEND, "Changes made at the airport"),)
    ),
    HandbookQuestion(
        "When are tickets for contract flights issued?",
        ((AMEND, "Changes made before going to the airport"), (FAQ, "How to Stamp and Submit")),
    ),
    HandbookQuestion(
        "Which help desk do I call when the amended authorization is wrong?",
        ((AMEND, "Amended Authorizations"),),
    ),
    HandbookQuestion(
        "What am I booked through when I leave in less than three days?",
        ((BOOK, "Brief overview of booking travel"),),
    ),
    HandbookQuestion(
        "Where do I mail the access form to?",
        ((CONCUR, "4. Email Completed Form"), (CONCUR, "3. Complete the CGE")),
    ),
    HandbookQuestion(
        "Who has to sign the access form as my supervisor?",
        ((CONCUR, "Whose signature"), (CONCUR, "3. Complete the CGE")),
    ),
    HandbookQuestion(
        "What do I write to get a trip of my own approved?",
        (
            (EMAILS, "Email Template for Individual Travel"),
            (FAQ, "How to secure authorizing official approval"),
        ),
    ),
    HandbookQuestion(
        "Which voucher do I choose for day trips without a flight?",
        (
            (REIMBURSE, "Brief overview of vouchers"),
            (FAQ, "How do I create a local or miscellaneous voucher"),
        ),
    ),
)
