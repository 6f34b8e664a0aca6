"""Rows that wait are reported: for what, who could provide it, and who waits in a circle."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness_core.loader import find_waiting

from .harness import running

pytestmark = pytest.mark.asyncio

PLUGINS = """
    def make(provides, inject):
        class Plugin:
            pass
        Plugin.name = provides
        Plugin.provides = [provides]
        Plugin.inject = inject
        Plugin.apply = lambda self, ctx: ctx.provide(provides, object())
        return Plugin()

    a, b, c = make("aa", ["bb"]), make("bb", ["cc"]), make("cc", ["aa"])
    lonely = make("ll", ["nobody_has_it"])
    free = make("free", [])
    freeloader = make("ff", ["free"])
    wants_agents = make("ww", ["agents"])
    failing = make("fail", [])
    failing.apply = lambda ctx: 1 / 0
    wants_failing = make("wf", ["fail"])
"""


async def report(tmp_path: Path, manifest: str) -> list[str]:
    async with running(tmp_path, p=PLUGINS, manifest=manifest) as (_, loader):
        return [str(waiting) for waiting in find_waiting(loader)]


async def test_nobody_provides_it(tmp_path: Path) -> None:
    """The service is named."""
    (said,) = await report(tmp_path, "- {id: x, name: './p.py:lonely'}\n")
    assert said == 'row "x" waits for service "nobody_has_it" (no row provides it)'


async def test_a_disabled_row_would_provide_it(tmp_path: Path) -> None:
    """It is looked at, not mounted."""
    rows = "- {id: x, name: './p.py:freeloader'}\n- {id: y, name: './p.py:free', disabled: true}\n"
    (said,) = await report(tmp_path, rows)
    assert 'row "y" would provide it and is disabled' in said


async def test_a_plugin_of_the_same_name_is_suggested(tmp_path: Path) -> None:
    """An installed plugin that carries the service's name."""
    (said,) = await report(tmp_path, "- {id: x, name: './p.py:wants_agents'}\n")
    assert "add a row with `name: agents`" in said


async def test_it_is_in_another_realm(tmp_path: Path) -> None:
    """Somebody provides it, but not here."""
    rows = "- {id: x, name: './p.py:freeloader'}\n- {id: y, name: './p.py:free', isolate: free}\n"
    (said,) = await report(tmp_path, rows)
    assert 'row "y" provides it in another realm' in said


async def test_its_provider_failed(tmp_path: Path) -> None:
    """The state is said."""
    rows = "- {id: x, name: './p.py:wants_failing'}\n- {id: y, name: './p.py:failing'}\n"
    (said,) = await report(tmp_path, rows)
    assert 'row "y" provides it and is failed' in said


async def test_a_circle_is_named_from_each_of_its_rows(tmp_path: Path) -> None:
    """And not from a row that only waits for one of them."""
    rows = "".join(f"- {{id: {one}, name: './p.py:{one}'}}\n" for one in "abc")
    rows += "- {id: d, name: './p.py:freeloader'}\n"
    said = await report(tmp_path, rows)
    assert said[0].endswith("They wait in a circle: a → b → c → a")
    assert said[1].endswith("They wait in a circle: b → c → a → b")
    assert 'row "b" provides it and waits for cc itself' in said[0]
    assert "circle" not in said[3]


async def test_nothing_waits(tmp_path: Path) -> None:
    """There is nothing to say."""
    assert await report(tmp_path, "- {id: y, name: './p.py:free'}\n") == []
