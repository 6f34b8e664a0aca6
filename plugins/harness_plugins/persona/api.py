"""What other plugins may use of `persona`: giving a context's layer its persona."""

from __future__ import annotations

from harness_core import Context, scope_of
from harness_core.prompt import PERSONA_ORDER, PERSONA_SECTION, SystemPrompt

__all__ = ["GLOBAL_ORDER", "GLOBAL_SECTION", "set_persona"]

GLOBAL_SECTION = "persona"
"""The section of a persona in the global layer, where `deployment:persona` is taken already."""

GLOBAL_ORDER = 1


def set_persona(ctx: Context, text: str, *, literal: bool = False) -> None:
    """Make `text` the persona of the layer that `ctx` is in; `ctx` must inject system_prompt.

    In a scope it replaces whatever persona the outer layers have. In the global layer it follows
    the persona that the system prompt itself is configured with.
    """
    prompt = ctx[SystemPrompt]
    if scope_of(ctx) is None:
        prompt.section(GLOBAL_SECTION, text, order=GLOBAL_ORDER, literal=literal)
        return
    prompt.section(PERSONA_SECTION, text, order=PERSONA_ORDER, literal=literal)
    prompt.section(GLOBAL_SECTION, "", order=GLOBAL_ORDER)
