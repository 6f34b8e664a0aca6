"""What the plugins of a scenario write down while they come and go."""

from __future__ import annotations

LOG: list[str] = []
