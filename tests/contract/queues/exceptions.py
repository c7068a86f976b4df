"""Where moto, the endpoint that is not ours, differs from SQS: the only tests of this suite that it may fail.

Each must fail: one that passes again is reported, and its line goes.
"""

from __future__ import annotations

MOTO: dict[str, str] = {
    # FIFO
    "test_a_copy_is_answered_with_the_id_and_sequence_of_the_first": "gives each copy an id and sequence of its own",
    "test_a_copy_is_known_also_after_the_first_was_deleted": "forgets the deduplication id with the message",
    "test_a_late_receiver_cannot_delete_what_another_has": "deletes by any receipt that it ever gave",
    "test_sequences_grow": "draws sequence numbers by chance",
    # Receipts. (SQS refuses an old one on a FIFO queue; on a standard queue it says done, and does nothing.)
    "test_a_receipt_that_another_receive_has_replaced_is_lost": "deletes by any receipt that it ever gave",
    "test_only_a_message_in_flight_can_be_held_longer": "holds a message that is not in flight",
    # Dead letters
    "test_a_dead_letter_tells_where_it_died": "has no DeadLetterQueueSourceArn",
}
