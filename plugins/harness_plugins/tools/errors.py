"""What registering, restricting and presenting tools may raise, and what a tool may."""

from __future__ import annotations

from harness_core.errors import DuplicateRegistrationError, HarnessError

__all__ = ["DuplicatePresentationError", "DuplicateToolError", "RestrictionError", "ToolError"]


class ToolError(HarnessError, RuntimeError):
    """What a tool raises to fail in words of its own; the model reads exactly the message.

    It is an answer and no fault of the tool, so it is not logged.
    """


class RestrictionError(HarnessError, ValueError):
    """A restriction that makes no sense. `names` are the unknown ones, `known` those there are."""

    def __init__(
        self, message: str, names: tuple[str, ...] = (), known: tuple[str, ...] = ()
    ) -> None:
        self.names = names
        self.known = known
        super().__init__(f"{message}; known tools: {', '.join(known) or '(none)'}")


class DuplicateToolError(DuplicateRegistrationError):
    """Two tools of one name at one level: plugin `holder` has it, and `plugin` wants it."""

    def __init__(self, name: str, layer: str, *, plugin: str, holder: str, place: str) -> None:
        self.plugin = plugin
        self.holder = holder
        hint = f': plugin "{holder}" has it ({place}), plugin "{plugin}" wants it'
        super().__init__("tool", name, layer, hint=hint)


class DuplicatePresentationError(DuplicateRegistrationError):
    """Two presentations at one level: that of plugin `holder` stands, and `plugin` wants one."""

    def __init__(self, name: str, layer: str, *, plugin: str, holder: str, place: str) -> None:
        self.plugin = plugin
        self.holder = holder
        hint = f': plugin "{holder}" chose it ({place}), plugin "{plugin}" wants another'
        super().__init__("presentation", name, layer, hint=hint)
