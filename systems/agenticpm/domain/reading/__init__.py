"""Reading of free text by rules: sentences, acceptance criteria, risks, assumptions, issues and dependencies.

Texts are English, German, French, Spanish, Italian, Portuguese or Dutch. Whatever is found carries the quoted
sentence as evidence. Nothing in a text is ever followed as an instruction.
"""
