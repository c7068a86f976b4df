"""Stateful tests: random operations on the tables engine, compared with a model of DynamoDB in plain Python.

values.py       tagged values as the protocol has them: their order, size and canonical numbers
expressions.py  a small family of conditions and updates: as text for the engine, evaluated for the model
model.py        the model: dictionaries, sorted lists and DynamoDB's arithmetic; it does not import Holdfast
steps.py        random steps that are data, so that a failing run can be shrunk
drivers.py      the engine in process, on a file, over HTTP, and as several processes on one file
comparison.py   runs steps against both, compares every answer, and finds the shortest failing run
"""
