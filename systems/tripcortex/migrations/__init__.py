"""Alembic revisions of the schema `tripcortex`.

0001 is the design document's starting point, 0002 what it asks for; later ones are additions.
"""
