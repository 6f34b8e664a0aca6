"""Errors of sessions: what cannot be read, written, found or held."""

from __future__ import annotations

from collections.abc import Sequence

from harness_core.errors import HarnessError, did_you_mean

__all__ = ["SessionBusyError", "SessionError", "UnknownSessionError"]

_SHOWN = 10


class SessionError(HarnessError, RuntimeError):
    """A session that cannot be read, written or found. What is in its log stays as it was."""


class SessionBusyError(SessionError):
    """A session that another process, or another part of this one, has open. `holder` says who."""

    def __init__(self, session: str, holder: str) -> None:
        self.session = session
        self.holder = holder
        super().__init__(
            f'session "{session}" is open in {holder}: close it there, or fork it to go on here'
        )


class UnknownSessionError(SessionError, LookupError):
    """There is no session `session`; `known` are those that there are, the latest first."""

    def __init__(self, session: str, known: Sequence[str]) -> None:
        self.session = session
        self.known = tuple(known)
        hint = did_you_mean(session, known)
        shown = ", ".join(known[:_SHOWN]) or "(none)"
        more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
        super().__init__(f'there is no session "{session}"; sessions: {shown}{more}{hint}')
