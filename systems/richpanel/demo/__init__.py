"""The demo: a sandbox of the help desk and the shop, sample data, and the story that runs both."""
