"""The kernel, sentence by sentence: sections 2 and 3 of the contract."""
