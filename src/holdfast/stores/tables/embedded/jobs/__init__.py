"""Work in the background, in steps of a few milliseconds each: a waiting writer never waits long for it."""
