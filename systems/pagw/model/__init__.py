"""The gateway's data: entities, rows, queues, buckets and cache entries, with their access patterns."""
