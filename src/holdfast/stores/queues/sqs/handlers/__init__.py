"""The handlers of the SQS engine: each runs one operation as requests to SQS."""
