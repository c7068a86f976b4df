"""Tables, entities, access patterns and queries."""
