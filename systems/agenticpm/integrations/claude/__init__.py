"""The Claude writer of artefacts: the prompt data, the rules for its wording, and the writer itself."""
