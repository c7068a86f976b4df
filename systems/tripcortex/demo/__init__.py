"""The demo: sandboxes of the external services, the sample data, and the story with its processes."""
