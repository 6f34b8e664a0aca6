"""What every model adapter speaks: messages, a request, a stream of events, one kind of error.

No plugin by itself: `llm_openai`, `llm_anthropic` and `llm_scripted` are. What plugins import is
in `harness_plugins.llm.api`.
"""
