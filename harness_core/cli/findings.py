"""What `harness check` finds."""

from __future__ import annotations

from typing import Any

import attrs

from ..prompt import Origin
from .faults import Fault, relative
from .payload import GLOBAL, written_at

__all__ = ["Finding", "finding_at", "finding_of_fault"]


@attrs.frozen
class Finding:
    """One thing that is wrong. `where` is `file:line` or `file:line:column`."""

    rule: str
    scope: str
    plugin: str | None
    where: str | None
    message: str

    def as_data(self) -> dict[str, Any]:
        """Return the finding as JSON holds it."""
        return attrs.asdict(self)

    @property
    def fact(self) -> tuple[object, ...]:
        """What is wrong, wherever it shows."""
        return self.rule, self.plugin, self.where, self.message


def finding_at(rule: str, scope: str, origin: Origin | None, message: str) -> Finding:
    """Return a finding about what `origin` registered."""
    if origin is None:
        return Finding(rule, scope, None, None, relative(message))
    where = written_at(origin.file, origin.line)
    return Finding(rule, scope, origin.plugin, where, relative(message))


def finding_of_fault(rule: str, plugin: str | None, fault: Fault, scope: str = GLOBAL) -> Finding:
    """Return a fault as a finding."""
    hint = f" ({fault.hint})" if fault.hint else ""
    message = " ".join(part.strip() for part in fault.message.split("\n"))
    return Finding(rule, scope, plugin, fault.where, relative(message) + hint)
