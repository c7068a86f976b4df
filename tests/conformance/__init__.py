"""DynamoDB's behaviour as tests over its wire protocol, for Holdfast's server or any other endpoint."""
