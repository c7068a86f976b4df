"""A small system with work in flight in every part of the library whose state outlives a process.

Each module declares one part and has two functions: `write` creates its state and returns notes for the test,
and `leave` creates the state that the background worker of the tables would otherwise process at once. The
test modules continue the work.

The names of the tables, entities, attributes, states and queues declared here are in the archives: do not
rename them.
"""
