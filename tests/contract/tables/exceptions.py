"""Where moto, the endpoint that is not ours, differs from DynamoDB: the only tests of this suite that it may fail.

Each must fail: one that passes again is reported, and its line goes.
"""

from __future__ import annotations

MOTO: dict[str, str] = {
    # Items
    "test_a_condition_of_every_kind_is_judged[not]": "binds NOT wrongly: NOT (NOT x <> :v) passes",
    "test_a_key_of_the_wrong_type_is_refused": "does not look at the type of a key that is read",
    "test_a_nested_projection_shows_only_what_it_names": "takes the name in `#n[1]` for one that is not used",
    "test_an_update_without_an_expression_makes_the_item": "answers 500 to an UpdateItem that has only a key",
    # Pages
    "test_a_local_index_orders_a_partition_and_can_fetch_the_rest": "ignores Select=ALL_ATTRIBUTES on an index",
    "test_a_page_is_refused_for[half a start key]": "answers 500 to a start key without its sort key",
    "test_a_page_is_refused_for[key in a filter]": "lets a filter name a key",
    "test_a_page_is_refused_for[no index]": "tells an unknown index as ResourceNotFoundException",
    "test_a_page_is_refused_for[type of a key]": "does not look at the type of a key that is queried",
    # Batches and transactions
    "test_a_repeat_with_the_same_token_has_no_second_effect": "ignores ClientRequestToken",
    "test_an_update_that_cannot_be_is_a_reason": "refuses the whole transaction with ValidationException",
    "test_items_are_read_at_one_moment_in_the_order_asked": "ignores the projections of TransactGetItems",
    "test_one_key_twice_is_refused_and_nothing_is_written": "writes a batch that has one key twice",
    "test_one_token_with_another_transaction_is_refused": "ignores ClientRequestToken",
    # Capacity units: constants, whatever was read or written
    "test_a_batch_is_told_by_table": "tells one unit a table",
    "test_a_page_sums_its_items_before_it_rounds": "tells one unit a page",
    "test_a_query_of_an_index_is_told_of_the_index": "tells a global index as a local one",
    "test_a_read_costs_by_four_kilobytes_and_half_if_it_may_be_stale[INDEXES]": "tells half a unit a read",
    "test_a_read_costs_by_four_kilobytes_and_half_if_it_may_be_stale[TOTAL]": "tells half a unit a read",
    "test_a_transaction_costs_twice": "tells nothing of transactions",
    "test_a_write_costs_by_the_kilobyte": "tells one unit a write",
    "test_each_index_is_told_apart": "tells nothing of the indexes that are written",
    # Definitions
    "test_a_table_has_an_id": "gives tables no id",
    "test_a_table_that_is_going_says_so": "tells a table that it deletes as ACTIVE",
    # Lifetimes
    "test_lifetimes_of_a_table_that_is_not_there_are_not_found": "has a code of its own, ResourceNotFound",
    "test_what_is_on_already_is_refused": "switches lifetimes on twice",
    # Recovery
    "test_a_backup_is_described_and_listed": "does not tell the indexes of a table that was backed up",
    "test_a_backup_is_restored_into_another_table": "restores a table on demand as a provisioned one",
    "test_a_restored_table_can_be_paid_for_in_another_way_and_have_no_indexes": "ignores overrides",
    "test_a_restore_without_recovery_is_refused": "restores a table that has no recovery",
    # Streams
    "test_a_stream_that_is_not_there_is_not_found": "describes the newest stream, whichever was asked for",
}
