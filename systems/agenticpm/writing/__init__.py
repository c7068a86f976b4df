"""The rules by which artefacts are written: one file for each. Pure: the same facts give the same content.

No text in them counts days from now, so that a day without news leaves every artefact as it was.
"""
