"""Scopes, sentence by sentence: section 4 of the contract."""
