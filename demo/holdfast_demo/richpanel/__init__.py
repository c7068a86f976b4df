"""The demo of the Richpanel middleware: a sandbox of the help desk and the shop, a sample, and a story."""
