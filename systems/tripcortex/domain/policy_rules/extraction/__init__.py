"""Extraction of rules from the text of a policy: plain functions over normalized wording, without a model.

statements.py   blocks of a document: paragraphs, items, tables
wording.py      numbers, days, amounts and cabins in one form
definitions.py  the document's own levels, zones, hauls and home country (`vocabulary.py`)
scopes.py       routes, hours, levels of a statement; a condition that was not understood
cabins.py, fares.py, notices.py, carriers.py, approvers.py, tables.py   the rules of each subject
sentences.py    all subjects of one sentence
completeness.py whether the document ends within a sentence or lacks sections that it refers to
"""
