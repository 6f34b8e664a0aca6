"""`code_mode`: signatures, the pair of section and tool, and the processes that run code."""
