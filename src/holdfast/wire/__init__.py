"""DynamoDB's JSON protocol in front of a tables store.

A request goes one way: bytes → `dispatch` (JSON, then `shapes`: types and constraints) → the operation's own
file in `operations/` (its checks in order) → a frozen operation of `holdfast.operations.tables`. The same
file encodes the result, which leaves as bytes. Only this package uses AWS's casing.
"""
