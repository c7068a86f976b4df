"""Programs for the people who work on Holdfast; no part of any distribution."""
