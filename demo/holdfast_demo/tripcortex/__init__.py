"""The demo of Trip Cortex: sandboxes of the portal and the token issuer, sample data, and the story."""
