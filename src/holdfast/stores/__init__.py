"""The stores (tables, sql, objects, cache, queues): one package per kind, with a port and its engines."""
