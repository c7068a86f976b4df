"""Background work, in steps of a few milliseconds each, so that a writer never waits long for it."""
