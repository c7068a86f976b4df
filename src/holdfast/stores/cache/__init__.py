"""The cache store: its port, its request checks (`checks.py`), and the engines `memory` and `redis`."""
