"""The tests of the queues contract that must fail on moto, each with how moto differs from SQS.

Each must fail: remove a line when its test is reported as passing.
"""

from __future__ import annotations

MOTO: dict[str, str] = {
    # FIFO
    "test_duplicate_gets_the_id_and_sequence_of_the_original": (
        "gives each copy an id and sequence of its own"
    ),
    "test_duplicate_is_recognized_after_the_original_was_deleted": (
        "forgets the deduplication id with the message"
    ),
    "test_late_receiver_cannot_delete_a_message_of_another": "deletes by any receipt that it ever gave",
    "test_sequences_grow": "draws sequence numbers by chance",
    # Receipts. (SQS refuses an old one on a FIFO queue; on a standard queue it says done, and does nothing.)
    "test_receipt_expires_when_the_message_is_received_again": "deletes by any receipt that it ever gave",
    "test_only_a_message_in_flight_can_be_held_longer": "holds a message that is not in flight",
    # Dead letters
    "test_dead_letter_names_its_source_queue": "has no DeadLetterQueueSourceArn",
}
