"""The stages of a request after it was accepted, each the consumer of its own queue.

    enriching → attaching → converting → connecting → building → calling_back → subscribing
                                             ↑ payer          ↖ a payer's callback

`staging` is the frame that they share; `notifying` tells clients, `archiving` brings audit events to the audit bucket.
"""
