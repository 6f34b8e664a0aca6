"""Random edits of random modules, against a model of which version of each must be live."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from harness_core.reload import StagingError, stage
from harness_core.reload.stage import evict

from .project import Project, open_project, world

NAMES = ("ant", "bee", "cat", "dog", "elk", "fox")
PLUGINS = ("ant", "bee")
"""Modules that are loaded from outside; the others are loaded if somebody imports them."""

TEXT = """\
import sys
{imports}
VERSION = int("{version:06}")
SEEN = {{name: sys.modules["farm." + name] for name in {names!r}}}
{fault}
"""
STYLES = (
    "import farm.{}",
    "from farm.{} import VERSION",
    "from farm import {}",
    "from . import {}",
)
FAULTS = {"": "", "syntax": "def (:", "raise": "raise ValueError('broken')"}


class Source:
    """What a file holds: a version, what it imports (later names only), and what is wrong."""

    def __init__(self, version: int, imports: tuple[str, ...], fault: str) -> None:
        self.version = version
        self.imports = imports
        self.fault = fault

    def text(self, *, package: bool) -> str:
        style = STYLES[self.version % (3 if package else 4)]
        imports = "\n".join(style.format(name) for name in self.imports)
        return TEXT.format(
            imports=imports, version=self.version, names=self.imports, fault=FAULTS[self.fault]
        )


class Farm(RuleBasedStateMachine):
    """`disk` is what the files hold, `live` what must be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.closing = ExitStack()
        directory = self.closing.enter_context(tempfile.TemporaryDirectory())
        self.project: Project = self.closing.enter_context(open_project(Path(directory)))
        self.disk: dict[str, Source] = {}
        self.live: dict[str, Source] = {}
        self.version = 0
        self.has_failed = False

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.project.write("farm/__init__.py", "")
        for name in NAMES:
            self._save(name, data.draw(_imports(name)))
        for name in PLUGINS:
            self.mount(name)

    # What a developer does

    @rule(names=st.lists(st.sampled_from(NAMES), min_size=1), data=st.data())
    def edit(self, names: list[str], data: st.DataObject) -> None:
        for name in names:
            self._save(name, data.draw(_imports(name)), package=data.draw(st.booleans()))

    @rule(names=st.lists(st.sampled_from(NAMES), min_size=1), data=st.data())
    def edit_what_works(self, names: list[str], data: st.DataObject) -> None:
        self.fix()
        self.edit(names, data)
        self.reload("settle")

    @rule()
    def fix(self) -> None:
        """Save everything that is missing or broken, so that it works."""
        for name in NAMES:
            if name not in self.disk or self.disk[name].fault:
                imports = self.disk[name].imports if name in self.disk else ()
                self._save(name, imports)

    @rule(name=st.sampled_from(NAMES), data=st.data(), fault=st.sampled_from(["syntax", "raise"]))
    def break_it(self, name: str, data: st.DataObject, fault: str) -> None:
        self._save(name, data.draw(_imports(name)), fault)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        self.disk.pop(name, None)
        shutil.rmtree(self.project.path(f"farm/{name}"), ignore_errors=True)
        self.project.path(f"farm/{name}.py").unlink(missing_ok=True)

    @rule(name=st.sampled_from(NAMES), other=st.sampled_from(NAMES))
    def rename(self, name: str, other: str) -> None:
        if name in self.disk and other not in self.disk:
            source = self.disk[name]
            self.delete(name)
            self._save(other, tuple(one for one in source.imports if one > other), source.fault)

    def _save(
        self, name: str, imports: tuple[str, ...], fault: str = "", *, package: bool = False
    ) -> None:
        self.delete(name)
        self.version += 1
        source = self.disk[name] = Source(self.version, imports, fault)
        path = f"farm/{name}/__init__.py" if package else f"farm/{name}.py"
        self.project.write(path, source.text(package=package))
        # As if everything was saved within one second: only the content tells versions apart.
        os.utime(self.project.path(path), ns=(10**18, 10**18))

    # What the reloader does

    @rule(name=st.sampled_from(PLUGINS))
    def mount(self, name: str) -> None:
        """Load a plugin that is not there, in the ordinary way."""
        if name not in self.live and self._can_run({name}):
            self.project.load(f"farm.{name}")
            self._run({name})

    @rule(then=st.sampled_from(["settle", "settle", "commit and discard", "discard"]))
    def reload(self, then: str) -> None:
        graph, changed = self.project.graph, self._changed_files()
        plugins = [f"farm.{name}" for name in PLUGINS if name in self.live]
        names = _short(graph.affected(changed, plugins))
        outdated = self._outdated()
        used = self._reach([name for name in PLUGINS if name in self.live], self.live)
        assert names >= outdated & used
        assert names == outdated & used or self.has_failed, (names, outdated, used)
        touched = set[str]().union(*graph.touched_by(changed).values())
        idle = _short(graph.importers_of(touched)) - names
        evict(f"farm.{name}" for name in idle)
        for name in idle:
            del self.live[name]
        before = world()
        try:
            staged = stage({f"farm.{name}" for name in names}, graph)
        except StagingError:
            assert world() == before
            assert not self._can_run(names & self.disk.keys(), names)
            self.has_failed = True
            return
        assert world() == before
        assert self._can_run(names & self.disk.keys(), names)
        if then == "settle":
            staged.commit()
            staged.settle()
            for name in names:
                self.live.pop(name, None)
            self._run(names & self.disk.keys())
            return
        if then == "commit and discard":
            staged.commit()
        staged.discard()
        assert world() == before
        self.has_failed = True

    def _changed_files(self) -> set[Path]:
        changed = {name for name, source in self.live.items() if self.disk.get(name) is not source}
        paths = (f"farm/{name}{end}" for name in changed for end in (".py", "/__init__.py"))
        return {self.project.path(path) for path in paths}

    # The model

    def _outdated(self) -> set[str]:
        """Return the live modules that lead to one whose file is another now."""
        return {
            name
            for name in self.live
            if any(
                self.disk.get(other) is not self.live[other]
                for other in self._reach([name], self.live)
            )
        }

    def _reach(self, names: Iterable[str], sources: dict[str, Source]) -> set[str]:
        found: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name in sources and name not in found:
                found.add(name)
                left += sources[name].imports
        return found

    def _executed(self, start: set[str], taken_out: set[str]) -> set[str]:
        """Return what is executed when `start` is imported, `taken_out` being out of the way."""
        found: set[str] = set()
        left = list(start)
        while left:
            name = left.pop()
            if name not in found and (name in taken_out or name not in self.live):
                found.add(name)
                left += self.disk[name].imports if name in self.disk else ()
        return found

    def _can_run(self, start: set[str], taken_out: set[str] | None = None) -> bool:
        executed = self._executed(start, taken_out or set())
        return all(name in self.disk and not self.disk[name].fault for name in executed)

    def _run(self, start: set[str]) -> None:
        for name in self._executed(start, set()):
            self.live[name] = self.disk[name]

    @invariant()
    def the_right_versions_are_live(self) -> None:
        live = {
            name: sys.modules[f"farm.{name}"].VERSION
            for name in NAMES
            if f"farm.{name}" in sys.modules
        }
        assert live == {name: source.version for name, source in self.live.items()}

    @invariant()
    def nothing_is_mixed(self) -> None:
        """Whatever a live module has imported is what is live now."""
        for name in self.live:
            module = sys.modules[f"farm.{name}"]
            assert getattr(sys.modules["farm"], name) is module
            for other, seen in module.SEEN.items():
                assert sys.modules[f"farm.{other}"] is seen
        for name in NAMES:
            if "farm" in sys.modules and name not in self.live:
                assert not hasattr(sys.modules["farm"], name)

    def teardown(self) -> None:
        self.closing.close()


def _short(names: Iterable[str]) -> set[str]:
    return {name.removeprefix("farm.") for name in names}


def _imports(name: str) -> st.SearchStrategy[tuple[str, ...]]:
    later = [other for other in NAMES if other > name and other not in PLUGINS]
    if not later:
        return st.just(())
    return st.lists(st.sampled_from(later), unique=True, max_size=3).map(tuple)


TestFarm = Farm.TestCase
TestFarm.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
