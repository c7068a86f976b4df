"""The WebSocket API: connections, client actions, and delivery of messages to employees.

A message takes one way: a step stores it in the transaction of its change (`model.notices`) → the queue → the
sender (`workers.message_sender`) → the process that holds the connection (`ports.ConnectionGateway`) → its
open socket (`hub`). It is stored until a client acknowledges it, so an employee who was offline gets it on
the next connection.

    actions       parse and handle the actions that clients send
    frames        the JSON frames sent over a socket
    hub           the open sockets of this process
    sessions      the life cycle of one connection
    ports         the gateway to an open connection; `node_gateway` reaches other processes of the
                  service, `api_gateway` reaches Amazon API Gateway
"""
