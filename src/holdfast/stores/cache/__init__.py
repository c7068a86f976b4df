"""The cache: the port, what every engine asks of a request (`checks.py`), and the engines: `memory` (this
process), `redis`.
"""
