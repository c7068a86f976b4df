"""The PDF parser: `parser` starts the subprocess, `reader` parses in it; the other modules interpret one
page.
"""
