"""The loader: section 8 of the contract, as far as reading and mounting go."""
