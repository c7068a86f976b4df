"""What the gateway knows of FHIR and of Da Vinci PAS: reading, rules, claims, decisions, answers. All of it is pure.

A body comes in at `reading`, is judged by `pas_rules`, becomes a `ParsedClaim` (`claims`); a `Decision` of the payer and
the request become the answer (`answers`), which subscribers hear of by `notifications`.
"""
