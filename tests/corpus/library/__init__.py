"""A small system with work in flight in every part of the library whose state outlives a process.

Each module declares one part and has two functions: `write` makes its state and returns notes for the test, and
`leave` makes the state that the background worker of the tables would otherwise work off at once. `test_*.py` carry
the work on.

The names of the tables, entities, attributes, states and queues declared here are in the archives: do not rename them.
"""
