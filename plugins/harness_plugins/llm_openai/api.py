"""What other plugins may use of `llm_openai`: the shape of its tools."""

from .config import Config as Config
from .request import tool_params as tool_params

__all__ = ["Config", "tool_params"]
