"""The console in a real browser. `site.py` serves one over sample data, `visitor.py` opens its pages."""
