"""Pure text functions of the policy search: query words, synonyms and rank fusion."""
