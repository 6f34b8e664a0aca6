"""What other plugins may use of `tools`: the service, its records, its errors and its events."""

from .events import ASK as ASK
from .events import EXECUTE as EXECUTE
from .events import POST_EXECUTE as POST_EXECUTE
from .events import PRE_EXECUTE as PRE_EXECUTE
from .events import RESULT as RESULT
from .function import function_tool as function_tool
from .model import DuplicateToolError as DuplicateToolError
from .model import RestrictionError as RestrictionError
from .model import Tool as Tool
from .model import ToolCall as ToolCall
from .model import ToolDecision as ToolDecision
from .model import ToolError as ToolError
from .model import ToolResult as ToolResult
from .model import Visibility as Visibility
from .service import Tools as Tools
from .service import ToolsConfig as ToolsConfig
from .validate import ArgumentsError as ArgumentsError

__all__ = [
    "ASK",
    "EXECUTE",
    "POST_EXECUTE",
    "PRE_EXECUTE",
    "RESULT",
    "ArgumentsError",
    "DuplicateToolError",
    "RestrictionError",
    "Tool",
    "ToolCall",
    "ToolDecision",
    "ToolError",
    "ToolResult",
    "Tools",
    "ToolsConfig",
    "Visibility",
    "function_tool",
]
