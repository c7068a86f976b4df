"""The migrations of the shop in `sql_announcing.py`."""
