"""The cache: the port, the checks that every engine makes of a request (`checks.py`), and the engines:
`memory` (this process), `redis`.
"""
