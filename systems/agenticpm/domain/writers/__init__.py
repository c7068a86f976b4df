"""Rules that write the artefacts, one module each. Pure: the same facts give the same content.

No text counts days from now, so that a day without news changes no artefact.
"""
