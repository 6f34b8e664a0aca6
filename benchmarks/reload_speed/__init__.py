"""How long a save takes to reach the prompt, and what a thousand reloads leave behind."""
