"""The Richpanel middleware: support automation that never replies or routes twice and keeps no personal text."""
