"""The tables store: its port, its request checks (`checks`), and the engines `embedded` and `dynamodb`."""
