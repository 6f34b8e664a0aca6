"""Does this project answer as the original does? FORMAT.md says how that is asked."""
