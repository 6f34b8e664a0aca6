"""The system prompt, sentence by sentence: sections 5 to 7 of the contract."""
