"""The plugin `tools`: what the model is told it can do is what it can do."""
