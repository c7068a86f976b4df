"""The stores: one package per kind of data (tables, sql, objects, cache, queues), each with a port and
engines.
"""
