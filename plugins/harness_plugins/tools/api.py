"""What other plugins may use of `tools`: the service, its records, its errors and its events."""

from .errors import DuplicatePresentationError as DuplicatePresentationError
from .errors import DuplicateToolError as DuplicateToolError
from .errors import RestrictionError as RestrictionError
from .errors import ToolError as ToolError
from .events import ASK as ASK
from .events import EXECUTE as EXECUTE
from .events import POST_EXECUTE as POST_EXECUTE
from .events import PRE_EXECUTE as PRE_EXECUTE
from .events import RESULT as RESULT
from .function import function_tool as function_tool
from .model import Tool as Tool
from .model import ToolCall as ToolCall
from .model import ToolDecision as ToolDecision
from .model import ToolResult as ToolResult
from .model import Visibility as Visibility
from .naming import identifier as identifier
from .naming import python_names as python_names
from .presentation import Presentation as Presentation
from .presentation import PresentationError as PresentationError
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
    "DuplicatePresentationError",
    "DuplicateToolError",
    "Presentation",
    "PresentationError",
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
    "identifier",
    "python_names",
]
