"""The system prompt: everybody contributes, one assembler builds the model's input."""

from .diff import AssemblyDiff as AssemblyDiff
from .diff import Change as Change
from .diff import diff_assemblies as diff_assemblies
from .diff import render_request as render_request
from .model import AssembleContext as AssembleContext
from .model import AssembledContext as AssembledContext
from .model import AssembledSection as AssembledSection
from .model import PromptAssembly as PromptAssembly
from .origin import Explained as Explained
from .origin import Origin as Origin
from .registry import CHANGE as CHANGE
from .registry import PERSONA_ORDER as PERSONA_ORDER
from .registry import PERSONA_SECTION as PERSONA_SECTION
from .registry import SystemPrompt as SystemPrompt
from .registry import SystemPromptConfig as SystemPromptConfig
from .render import render_context_sections as render_context_sections
from .render import render_context_snapshot as render_context_snapshot
from .render import render_prompt as render_prompt
from .template import list_references as list_references
from .tool import ToolProviderResult as ToolProviderResult
from .tool import ToolSchema as ToolSchema
from .tool_order import TOOL_ORDER_REST as TOOL_ORDER_REST
