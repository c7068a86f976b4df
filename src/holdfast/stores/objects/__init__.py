"""The objects store: its port, its request checks (`checks.py`), and the engines `local` and `s3`."""
