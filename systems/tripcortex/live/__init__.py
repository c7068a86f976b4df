"""What an employee is told while it happens, and who they are that ask.

A message goes one way: a step writes it with what it tells (`notices`) → the queue → the sender (`sender`) → the process that
holds the connection (`ports.ConnectionGateway`) → its open socket (`hub`). It stays until a client acknowledges it, so that
one who was away is told on the next connection.

    identity      who calls, by a token of Clerk's shape
    trips         what an employee may do with bookings, over WebSocket and HTTP alike
    frames        what is sent over a socket
    desk          what a client's messages ask for
    hub           the open sockets of this process
    sessions      the life of one connection, from its row to its end
    notices       the queue of what is to be told, and the outbox before it
    sender        from the queue to every live connection; the heartbeat
    node_gateway  the way to another process of ours; `api_gateway` is Amazon's
    needs         the patterns of all this, for components
"""
