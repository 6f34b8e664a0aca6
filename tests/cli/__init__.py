"""The command line: section 10 of the contract."""
