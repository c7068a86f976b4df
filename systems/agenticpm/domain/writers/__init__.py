"""Rules that build the artefact contents, one module per artefact. Pure: equal facts give equal content.

No text counts days from now, so that a day without news changes no artefact.
"""
