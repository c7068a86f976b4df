"""Calls with JSON arguments and JSON results: the tools of agents, and the forms of the console.

arguments.py    schema, example and validation of the arguments
results.py      run an operation, and its result as JSON
truncation.py   results of bounded size
"""
