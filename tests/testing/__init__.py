"""The testing kit: section 11 of the contract."""
