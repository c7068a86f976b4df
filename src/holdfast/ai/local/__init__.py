"""Small local engines: token vectors from a wheel, and a linear model on them. They need the extra `ai`."""
