"""The demo of PAGW: sandboxes of a payer, a token issuer and a client, sample data, and the story."""
