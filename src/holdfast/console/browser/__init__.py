"""The data browser: items of tables, their past and their changes, rows of SQL tables, objects.

catalog.py    the tables, schemas and buckets of the systems, with their stored counts
addresses.py  the addresses of pages, with keys and cursors as tokens
entities.py   which entity an item is, and how its keys are built
queries.py    one page of a table or an index, from the fields of a form
values.py     values as text: typed, and as DynamoDB's JSON
edit_rules.py, edit_forms.py, edits.py    whether an item may be edited, its form, and the write
streams.py    the newest changes of a table
sql_rows.py, object_views.py    rows and objects, read-only
routes.py and the modules of each group of pages
"""

from __future__ import annotations

from holdfast.console.browser.addresses import build_item_url, build_table_url

__all__ = ["build_item_url", "build_table_url"]
