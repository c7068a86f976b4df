"""The queues store: its port, request checks (`checks.py`), and the engines `embedded` (SQLite) and `sqs`."""
