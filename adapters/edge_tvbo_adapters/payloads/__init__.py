"""Payload formats: how each integration encodes a reading; `formats` lists them."""
