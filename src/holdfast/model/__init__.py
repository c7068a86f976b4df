"""The model: what a system declares once, and the operations that typed builders make from it.

tables → attributes, key templates, keys → entity (declaration) → reads, writes → patterns → system. An
operation runs through a `Requester`; `holdfast.runtime` binds it to engines.
"""
