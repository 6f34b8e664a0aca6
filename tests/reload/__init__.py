"""Hot reload."""
