"""The rules of the design check, one function each: from a `Design` to the findings it has of it.

design.py      what a rule looks at, and what it gives
patterns.py    examples, scans, rates, components
indexes.py     unused, too many, too wide, too narrow, too few different keys
partitions.py  hot partitions at the declared rates
queues.py      limits, dead letters, senders and receivers, consumers
items.py       growth, lifetimes, reserved words
"""
