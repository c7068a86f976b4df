"""The rules of the design check: each function takes a `Design` and yields findings.

base.py           `Design`, `Finding`, `Rule`
patterns.py       examples, scans, rates, components
indexes.py        unused, too many, too wide, too narrow, too few distinct keys
partitions.py     hot partitions at the declared rates
hot_keys.py       patterns whose calls all use one partition key
queues.py         limits, dead letters, senders and receivers, consumers
items.py          growth, lifetimes, reserved words
sql_and_cache.py  SQL statements and cache lifetimes
what_if.py        the load-dependent rules at other loads
"""
