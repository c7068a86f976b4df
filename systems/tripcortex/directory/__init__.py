"""The directory of employees: who manages whom, and who approves.

CSV file   → csv_import.py ┐
                           ├→ checks.py → changes.py → model/directory.py (SQL)
SCIM calls → scim.py       ┘                                  └→ approvers.py → the people of an approval
"""

from __future__ import annotations
