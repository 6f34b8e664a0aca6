"""`session`: history that lasts. The service `session`.

    - name: session
      config:
        directory: .harness           # of the file sessions.sqlite; starts at the manifest
        url: postgresql://host/name   # instead of a directory
        timeout: 10                   # seconds to wait for a database that is in use

A session is a log of events that is only ever added to; the conversation is what the log amounts
to. What was written is durable before anybody acts upon it. One process at a time has a session
open. The database is made with the first session. What other plugins may import is in
`harness_plugins.session.api`.
"""

from __future__ import annotations

from harness_core import Context

from .api import Sessions, SessionsConfig
from .service import locate

__all__ = ["Config", "Sessions", "apply", "name", "provides"]

name = "session"
provides = ["session"]
Config = SessionsConfig


def apply(ctx: Context, config: SessionsConfig) -> None:
    """Publish the service."""
    locate(ctx, config)  # what is wrong with the settings is an error of this plugin
    ctx.plugin(Sessions, config)
