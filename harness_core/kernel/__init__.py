"""The tree of fibers and contexts. Knows nothing of prompts, files or agents."""
