"""Stored state: tables, entities, the event queue, the replay archive and the access patterns."""
