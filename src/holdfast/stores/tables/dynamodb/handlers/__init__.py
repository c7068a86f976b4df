"""The handlers of the DynamoDB engine: each runs one operation as requests to the service."""
