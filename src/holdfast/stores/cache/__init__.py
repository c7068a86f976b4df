"""The cache store: its port, request checks (`checks.py`), and the engines `memory` (in process) and `redis`.
"""
