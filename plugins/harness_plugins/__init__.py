"""First-party plugins, each a worked example of the public API."""
