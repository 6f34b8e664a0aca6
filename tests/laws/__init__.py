"""The laws of the contract, as properties of random trees, each against a small pure model."""
