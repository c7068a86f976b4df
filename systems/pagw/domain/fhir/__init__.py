"""FHIR R4 and Da Vinci PAS: parsing, rules, claims, decisions and responses. Pure: no stores, no I/O.

`parser` turns a request body into a resource, `rules.pas_rules` checks it and `claims` turns it into a
`ParsedClaim`. `responses.response_bundles` builds the response from the request and the payer's `Decision`;
`responses.notifications` announces it to subscribers.
"""
