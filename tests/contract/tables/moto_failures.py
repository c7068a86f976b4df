"""The tests of the tables contract that must fail on moto, each with how moto differs from DynamoDB.

Each must fail: remove a line when its test is reported as passing.
"""

from __future__ import annotations

MOTO: dict[str, str] = {
    # Items
    "test_evaluates_every_kind_of_condition[not]": "binds NOT wrongly: NOT (NOT x <> :v) passes",
    "test_a_key_of_the_wrong_type_is_refused": "does not check the type of a key that is read",
    "test_a_nested_projection_shows_only_what_it_names": "reports the name in `#n[1]` as unused",
    "test_an_update_without_an_expression_makes_the_item": "answers 500 to an UpdateItem that has only a key",
    # Pages
    "test_a_local_index_orders_a_partition_and_can_fetch_the_rest": (
        "ignores Select=ALL_ATTRIBUTES on an index"
    ),
    "test_rejects_an_invalid_page_request[half a start "
    "key]": "answers 500 to a start key without its sort key",
    "test_rejects_an_invalid_page_request[key in a filter]": "accepts a filter on a key",
    "test_rejects_an_invalid_page_request[no index]": "reports an unknown index as ResourceNotFoundException",
    "test_rejects_an_invalid_page_request[type of a key]": "does not check the type of a key that is queried",
    # Batches and transactions
    "test_a_repeat_with_the_same_token_has_no_second_effect": "ignores ClientRequestToken",
    "test_invalid_update_is_a_cancellation_reason": "refuses the whole transaction with ValidationException",
    "test_reads_items_at_one_moment_in_request_order": "ignores the projections of TransactGetItems",
    "test_one_key_twice_is_refused_and_nothing_is_written": "writes a batch with a duplicate key",
    "test_one_token_with_another_transaction_is_refused": "ignores ClientRequestToken",
    # Capacity units: constants, whatever was read or written
    "test_reports_a_batch_by_table": "reports one unit per table",
    "test_a_page_sums_its_items_before_it_rounds": "reports one unit per page",
    "test_index_query_is_charged_to_the_index": "reports a global index as a local one",
    "test_read_costs_per_4_kb_and_half_when_eventually_consistent[INDEXES]": ("reports half a unit per read"),
    "test_read_costs_per_4_kb_and_half_when_eventually_consistent[TOTAL]": "reports half a unit per read",
    "test_a_transaction_costs_twice": "reports nothing for transactions",
    "test_a_write_costs_by_the_kilobyte": "reports one unit per write",
    "test_reports_each_index_separately": "reports nothing for the written indexes",
    # Definitions
    "test_a_table_has_an_id": "gives tables no id",
    "test_deleting_table_reports_its_status": "reports a deleting table as ACTIVE",
    # Lifetimes
    "test_ttl_of_a_missing_table_is_not_found": "has a code of its own, ResourceNotFound",
    "test_rejects_enabling_ttl_twice": "enables lifetimes twice",
    # Recovery
    "test_a_backup_is_described_and_listed": "does not describe the indexes of a backup",
    "test_a_backup_is_restored_into_another_table": "restores an on-demand table as a provisioned one",
    "test_a_restored_table_can_be_paid_for_in_another_way_and_have_no_indexes": "ignores overrides",
    "test_a_restore_without_recovery_is_refused": "restores a table that has no recovery",
    # Streams
    "test_missing_stream_is_not_found": "always describes the newest stream",
}
