"""Each operation of a queues store, as requests to SQS."""
