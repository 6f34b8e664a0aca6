"""Random saves of modules and rows in a running tree, while assemblies go on, against a model.

The model knows what each file holds and which version of each plugin must serve: the one on disk if
all that is to be loaded with it works, else the one that served before. Code takes one setting and
no other, so that some of it only works together with a new row.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import anyio
import anyio.lowlevel
import attrs
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from laws.machine import TreeMachine, laws

from harness_core import FiberState
from harness_core.cli.upkeep import Upkeep
from harness_core.loader import Loader, Resolver, read_manifest
from harness_core.prompt import SystemPrompt, render_prompt
from harness_core.reload import Batch
from harness_core.testing import ledger

from .project import open_project

HELPER_OF = {"ant": "hut", "bee": "hut", "cat": "inn", "dog": ""}
"""What each plugin imports. What it imports anew, and cannot yet, is the other machine's matter."""
PLUGINS = tuple(HELPER_OF)
HELPERS = ("hut", "inn")
KEYS = st.sampled_from(("at", "at", "at", "place"))

PLUGIN = """\
import anyio
{imports}
import attrs
{at_import}
overlap = {overlap}
inject = ["system_prompt"]

@attrs.frozen
class Config:
    {key}: int

async def apply(ctx, config):
    await anyio.lowlevel.checkpoint()
    text = "{name} {version} with " + {used} + f" at {{config.{key}}}"
    ctx.system_prompt.section("{name}", text, order=1)
    ctx.on("ping", print)
    await anyio.lowlevel.checkpoint()
    {in_body}
"""
FAULTS = {
    "": ("", "pass"),
    "syntax": ("def (:", "pass"),
    "import": ("raise ValueError('injected')", "pass"),
    "body": ("", "raise ValueError('injected')"),
}


def _real(place: str) -> Path:
    return Path(place).resolve()


@attrs.frozen
class Source:
    """What one file holds."""

    version: int
    helper: str = ""
    overlap: bool = False
    fault: str = ""
    key: str = "at"


class Living(TreeMachine):
    """`disk` is what the files hold; `live` what serves: a plugin's source and its helper's.

    `written` is what the manifest says, `rows` what runs: a setting and its value.
    """

    async def set_up(self) -> None:
        logging.getLogger("harness_core").setLevel(logging.CRITICAL)  # what fails is meant to
        self.closing = ExitStack()
        place = _real(self.closing.enter_context(tempfile.TemporaryDirectory()))
        self.project = self.closing.enter_context(open_project(place, observed=False))
        self.disk: dict[str, Source] = {}
        self.live: dict[str, tuple[Source, Source | None]] = {}
        self.rows: dict[str, tuple[str, int]] = {}
        self.written: dict[str, tuple[str, int]] = {}
        self.changed: set[Path] = set()
        self.version = 0
        self.behind = False
        await self.root.plugin(SystemPrompt, include_harness_identity=False)

    @initialize()
    def begin(self) -> None:
        self.project.write("farm/__init__.py", "")
        for name in (*HELPERS, *PLUGINS):
            self.save(name, False, "", "at")
        self.rows = dict.fromkeys(PLUGINS, ("at", 0))
        self.written = dict(self.rows)
        self._write_rows()
        self.run(self._start())
        self.changed.clear()
        self.live = {name: self._wanted(name) for name in PLUGINS}

    async def _start(self) -> None:
        manifest = read_manifest(self.project.path("harness.yaml"))
        self.loader = Loader(manifest, Resolver(manifest.directory))
        self.root.provide("loader", self.loader)
        self.upkeep = Upkeep(self.root, self.loader)
        self.reloader = self.upkeep.reloader
        self.loader.start()
        await self.settle()

    # What a developer does

    @rule(
        name=st.sampled_from((*PLUGINS, *HELPERS)),
        overlap=st.booleans(),
        fault=st.sampled_from(("", "", "", *FAULTS)),
        key=KEYS,
    )
    def save(self, name: str, overlap: bool, fault: str, key: str) -> None:
        self.version += 1
        helper = HELPER_OF.get(name, "")
        if name in HELPERS:
            fault = "" if fault == "body" else fault
            self.disk[name] = Source(self.version, fault=fault)
            text = f"{FAULTS[fault][0]}\nVERSION = '{name} {self.version:05}'\n"
        else:
            self.disk[name] = Source(self.version, helper, overlap, fault, key)
            text = PLUGIN.format(
                name=name,
                version=self.version,
                imports=f"from .{helper} import VERSION" if helper else "",
                used="VERSION" if helper else "'nothing'",
                overlap=overlap,
                key=key,
                at_import=FAULTS[fault][0],
                in_body=FAULTS[fault][1],
            )
        path = self.project.write_atomically(f"farm/{name}.py", text)
        # As if all was saved within one second: only the content tells versions apart.
        os.utime(path, ns=(10**18, 10**18))
        self.changed.add(path)

    @rule(name=st.sampled_from(PLUGINS))
    def fix(self, name: str) -> None:
        source = self.disk[name]
        for one in (source.helper, name):
            if one and self.disk[one].fault:
                self.save(one, self.disk[one].overlap, "", self.disk[one].key)

    @rule(name=st.sampled_from(PLUGINS))
    def touch_nothing(self, name: str) -> None:
        """Save the same text again: the prompt stays to the letter, and nobody loads again."""
        self.look()
        before = self.run(self._prompt_and_fibers())
        self.changed.clear()
        self.look()
        assert self.run(self._prompt_and_fibers()) == before

    async def _prompt_and_fibers(self) -> tuple[str, str, dict[str, object]]:
        return await self._assemble(), str(ledger(self.root)), dict(self.loader.running)

    # What the harness does

    @rule()
    def look(self) -> None:
        """Take up what has changed, while prompts are assembled."""
        seen = [self._prompt()]
        self._decide(seen)
        fibers = dict(self.loader.running)
        texts = self.run(self._while_assembling(self._take_up))
        assert texts <= {*seen, self._prompt()}
        assert dict(self.loader.running) == fibers

    async def _take_up(self) -> None:
        files, self.changed = frozenset(self.changed), set()
        await self.upkeep.take_up(Batch(changed=files))

    @rule(name=st.sampled_from(PLUGINS), key=KEYS, at=st.integers(0, 3))
    def write_a_row(self, name: str, key: str, at: int) -> None:
        """A row is changed, also of a plugin that is stale."""
        self.written[name] = (key, at)
        self._write_rows()
        self.changed.add(self.upkeep.manifest)

    @rule(name=st.sampled_from(PLUGINS))
    def write_the_row_that_fits(self, name: str) -> None:
        self.write_a_row(name, self.disk[name].key, self.written[name][1])

    def _write_rows(self) -> None:
        rows = "".join(
            f"- {{id: {name}, name: farm.{name}, config: {{{key}: {at}}}}}\n"
            for name, (key, at) in self.written.items()
        )
        self.project.write("harness.yaml", rows)

    async def _while_assembling(self, work: object) -> set[str]:
        texts: set[str] = set()

        async def assemble() -> None:
            texts.add(await self._assemble())

        async def keep_assembling() -> None:
            async with anyio.create_task_group() as tasks:
                while True:
                    tasks.start_soon(assemble)
                    await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_assembling)
            await anyio.lowlevel.checkpoint()
            await work()  # type: ignore[operator]
            tasks.cancel_scope.cancel()
        return texts

    async def _assemble(self) -> str:
        return render_prompt(await self.root.system_prompt.assemble())

    # The model

    def _wanted(self, name: str) -> tuple[Source, Source | None]:
        source = self.disk[name]
        return source, self.disk[source.helper] if source.helper else None

    def _decide(self, seen: list[str]) -> None:
        """Say what is to serve, and add to `seen` the prompts that may show on the way there."""
        if (self.upkeep.manifest in self.changed or self.behind) and self._whole():
            self.behind = False
            return
        self._take_groups(self.rows)
        seen.append(self._prompt())
        if self.upkeep.manifest not in self.changed and not self.behind:
            return
        changed = {name for name in PLUGINS if self.rows[name] != self.written[name]}
        self.behind = any(self._key(name) != self.written[name][0] for name in changed)
        if changed and not self.behind:
            self.rows = dict(self.written)
            seen.append(self._prompt())
            self._take_groups(self.rows)

    def _whole(self) -> bool:
        """Let rows serve with the code that is not at fault; return whether they do."""
        if self.rows == self.written:
            return False
        good = [one for one in self._groups() if all(self._works(x, self.written) for x in one)]
        taken = {name for group in good for name in group}
        fits = all(
            name in taken or self._key(name) == self.written[name][0]
            for name in PLUGINS
            if self.rows[name] != self.written[name]
        )
        if not good or not fits:
            return False
        self.live.update({name: self._wanted(name) for name in taken})
        self.rows = dict(self.written)
        return True

    def _key(self, name: str) -> str:
        """Return the setting that the code takes that serves."""
        return self.live[name][0].key

    def _take_groups(self, rows: dict[str, tuple[str, int]]) -> None:
        """Let the new versions serve, group by group, where all of a group works."""
        for group in self._groups():
            if all(self._works(name, rows) for name in group):
                self.live.update({name: self._wanted(name) for name in group})

    def _groups(self) -> list[list[str]]:
        """Return the plugins whose code has changed, those together that share a changed helper."""
        left = [name for name in PLUGINS if self._wanted(name) != self.live[name]]
        groups: list[list[str]] = []
        while left:
            group = [left.pop(0)]
            groups.append(group)
            for one in group:
                for other in tuple(left):
                    if self._changed_helpers(one) & self._changed_helpers(other):
                        left.remove(other)
                        group.append(other)
        return groups

    def _changed_helpers(self, name: str) -> set[str]:
        """Return the helper of a plugin, if it has changed."""
        source, used = self.live[name]
        return {source.helper} if source.helper and used != self.disk[source.helper] else set()

    def _works(self, name: str, rows: dict[str, tuple[str, int]]) -> bool:
        source, helper = self._wanted(name)
        is_sound = not source.fault and (helper is None or not helper.fault)
        return is_sound and source.key == rows[name][0]

    def _prompt(self) -> str:
        texts: list[str] = []
        for name in PLUGINS:
            source, helper = self.live[name]
            used = f"{source.helper} {helper.version:05}" if helper else "nothing"
            texts.append(f"{name} {source.version} with {used} at {self.rows[name][1]}")
        return "\n\n".join(texts)

    @invariant()
    def who_should_serve_serves(self) -> None:
        if self.has_failed() or not self.rows:
            return
        assert self.run(self._assemble()) == self._prompt()
        assert {fiber.state for fiber in self.loader.running.values()} == {FiberState.ACTIVE}
        stale = {fiber.name for fiber in self.reloader.stale}
        if not self.changed:
            assert stale == {name for name in PLUGINS if self._wanted(name) != self.live[name]}
        tree = self.root.kernel.tree
        assert tree.lives == sum(source.overlap for source, _ in self.live.values())
        assert len(self.root.kernel.bus.listeners()["ping"]) == len(PLUGINS)

    def teardown(self) -> None:
        super().teardown()
        self.closing.close()
        assert not [name for name in sys.modules if name.startswith("farm.")]


TestLiving = Living.TestCase
TestLiving.settings = laws(25, steps=20)
