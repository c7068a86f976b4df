"""DynamoDB's behaviour as tests over its wire protocol, for our server or any other endpoint."""
