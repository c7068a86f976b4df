"""Revisions of the schema `tripcortex`: first what the design document found there, then what it asks for, then ours."""
