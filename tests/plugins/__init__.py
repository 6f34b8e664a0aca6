"""The first-party plugins: section 12 of the contract."""
