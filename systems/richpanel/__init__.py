"""The Richpanel middleware: automated customer support that never acts twice and stores no customer text."""
