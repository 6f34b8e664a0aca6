"""A turn on the terminal: text as it comes, one line for each tool call, one for the end."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from harness_core.cli.kit import one_line, visible
from harness_plugins.agents.api import (
    AgentEvent,
    Compacted,
    Replied,
    Retrying,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnResult,
)
from harness_plugins.llm.api import TextDelta, ThinkingDelta

__all__ = ["Show"]

_ARGUMENTS = 160
"""Characters of a tool call's arguments that are shown."""


class Show:
    """Prints the events of one turn after the other."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._is_inside = False
        """Whether the cursor stands behind a text."""

    def event(self, event: AgentEvent) -> None:
        """Print one event."""
        match event:
            case TextDelta(text):
                self._write(text)
            case ThinkingDelta(text):
                self._write(text, "dim italic")
            case Replied():
                self.end_line()
            case ToolStarted(request):
                self.line(f"→ {request.name} {_cut(request.arguments)}", "cyan")
            case ToolEnded(request, result):
                style = "red" if result.is_error else "dim"
                self.line(f"← {request.name} {result.status}: {_cut(result.text)}", style)
            case Retrying(attempt, seconds, error):
                said = f"attempt {attempt} failed, again in {seconds:.1f} s: {error}"
                self.line(said, "yellow")
            case Compacted(first, last, _):
                self.line(f"events {first} to {last} are replaced by a summary", "yellow")
            case TurnEnded(result):
                self._ended(result)
            case _:
                pass

    def _ended(self, result: TurnResult) -> None:
        self.end_line()
        usage = result.usage
        if usage.input_tokens or usage.output_tokens:
            cached = f", {usage.cached_tokens} cached" if usage.cached_tokens else ""
            spent = f"{usage.input_tokens} tokens in{cached}, {usage.output_tokens} out"
            self.line(f"{result.steps} {'step' if result.steps == 1 else 'steps'}, {spent}", "dim")
        if result.reason != "done":
            said = f": {result.error}" if result.error is not None else ""
            self.line(f"the turn ended: {result.reason}{said}", "red" if result.error else "yellow")

    def line(self, text: str, style: str = "") -> None:
        """Print a line of its own."""
        self.end_line()
        self.console.print(Text(one_line(text), style), soft_wrap=True)

    def end_line(self) -> None:
        """Make sure that the next text begins a line."""
        if self._is_inside:
            self.console.print()
            self._is_inside = False

    def _write(self, text: str, style: str = "") -> None:
        if text:
            self.console.print(Text(visible(text), style), end="", soft_wrap=True)
            self.console.file.flush()
            self._is_inside = not text.endswith("\n")


def _cut(text: str) -> str:
    return text if len(text) <= _ARGUMENTS else f"{text[:_ARGUMENTS]} … ({len(text)} characters)"
