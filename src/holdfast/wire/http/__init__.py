"""The HTTP side of the wire: the server, the ASGI app that authenticates and dispatches, and compression."""
