"""The PDF parser: `parser` starts a subprocess, `reader` parses in it; the others interpret one page."""
