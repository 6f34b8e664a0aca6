"""L5, L9, L10: what is refused leaves nothing, says so loudly, and names its owner.

Registrations of every kind are made, some good, some bad: bad names, duplicates, values of wrong
types, bodies that raise half-way, listeners that veto a change. After each one the tree is what
the model says: the good ones, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs
from anyio.lowlevel import checkpoint
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from harness_core import Context, Effect, Fiber, FiberState, create_scope
from harness_core.errors import (
    AssemblyCancelled,
    ConfigError,
    ContributionError,
    DuplicateRegistrationError,
    HarnessError,
    InvalidNameError,
    InvalidOrderError,
    MalformedReferenceError,
    MissingVariableError,
    MultipleCompleteSectionsError,
    PluginError,
    ServiceConflictError,
    ToolOrderError,
    UnknownVariableError,
)
from harness_core.prompt import SystemPrompt, ToolSchema, render_prompt
from harness_core.testing import ledger, observe

from .machine import Boom, TreeMachine, laws

Act = Callable[[Context], Any]


def _raises(*_: object) -> Any:
    raise Boom


async def _raises_later(*_: object) -> Any:
    await checkpoint()
    raise Boom


def _half_way(ctx: Context) -> None:
    ctx.on("law", print)
    ctx.get("system_prompt").section("half way", "text", order=1)
    ctx.provide("half_way", 1)
    ctx.plugin(lambda _: None)
    raise Boom


async def _half_way_later(ctx: Context) -> None:
    ctx.on("law", print)
    await checkpoint()
    _half_way(ctx)


class _BadManager:
    async def __aenter__(self) -> None:
        await checkpoint()
        raise Boom

    async def __aexit__(self, *exc: object) -> None:
        raise AssertionError("left, and was never entered")


class _BadSyncManager:
    def __enter__(self) -> None:
        raise Boom

    def __exit__(self, *exc: object) -> None:
        raise AssertionError("left, and was never entered")


def _section(**options: Any) -> Act:
    arguments = {"name": "s", "text": "text", "order": 1, **options}
    return lambda ctx: ctx.system_prompt.section(**arguments)


BAD: dict[str, tuple[Act, type[BaseException]]] = {
    "section without a name": (_section(name=""), InvalidNameError),
    "section of order nan": (_section(order=float("nan")), InvalidOrderError),
    "section of order True": (_section(order=True), InvalidOrderError),
    "section of order text": (_section(order="10"), InvalidOrderError),
    "section of 5": (_section(text=5), ContributionError),
    "section with a bad timeout": (_section(timeout=-1), ContributionError),
    "section for a bare tool": (_section(requires_tools="bash"), ContributionError),
    "identity again": (_section(name="harness:identity"), DuplicateRegistrationError),
    "variable with a newline": (lambda c: c.system_prompt.variable("v\n", "x"), InvalidNameError),
    "variable of 5": (lambda c: c.system_prompt.variable("v", 5), ContributionError),
    "tools of a list": (lambda c: c.system_prompt.tools([]), ContributionError),
    "listener of 5": (lambda c: c.on("law", cast("Any", 5)), PluginError),
    "plugin of 5": (lambda c: c.plugin(5), PluginError),
    "plugin that fails": (lambda c: c.plugin(_half_way), Boom),
    "plugin that fails later": (lambda c: c.plugin(_half_way_later), Boom),
    "plugin without config": (lambda c: c.plugin(lambda _: None, {"a": 1}), ConfigError),
    "service with a bad key": (lambda c: c.provide("not a key", 1), PluginError),
    "service named plugin": (lambda c: c.provide("plugin", 1), PluginError),
    "service again": (lambda c: c.provide("system_prompt", 1), ServiceConflictError),
    "effect that fails": (lambda c: c.effect(_half_way), Boom),
    "effect that fails later": (lambda c: c.effect(_half_way_later), Boom),
    "effect of 5": (lambda c: c.effect(lambda: 5), PluginError),
    "accessor that is taken": (lambda c: c.accessor("plugin", print), PluginError),
    "manager that fails": (lambda c: c.enter(_BadManager()), Boom),
    "sync manager that fails": (lambda c: c.enter(_BadSyncManager()), Boom),
    "manager of 5": (lambda c: c.enter(cast("Any", 5)), PluginError),
    "vetoed section": (_section(name="vetoed"), Boom),
}


@attrs.define
class Config:
    size: int = 1


class Refusals(TreeMachine):
    def __init__(self) -> None:
        self.good: list[Effect] = []
        self.configs: list[int] = []
        super().__init__()

    async def set_up(self) -> None:
        await self.root.plugin(SystemPrompt)
        self.veto = False

        def change() -> None:
            if self.veto:
                raise Boom

        self.root.on("system-prompt/change", change)

        async def configured(ctx: Context, config: Config) -> None:
            ctx.on("law", print)
            await checkpoint()
            if config.size > 5:
                raise Boom
            self.configs.append(config.size)

        configured.Config = Config  # type: ignore[attr-defined]
        self.configured: Fiber = await self.root.plugin(configured, {"size": 1})

        def owner(ctx: Context) -> None:
            self.owner = ctx

        owner.inject = ["system_prompt"]  # type: ignore[attr-defined]
        self.scope = create_scope(self.root, "a scope")
        await self.scope.ctx.plugin(owner)

    @rule(kind=st.sampled_from(sorted(BAD)), in_scope=st.booleans())
    def refuse(self, kind: str, in_scope: bool) -> None:
        """A bad registration raises the right error, with a note of whose it is, and is gone."""
        act, expected = BAD[kind]
        if kind == "identity again":
            in_scope = False  # there it would be an override
        ctx = self.owner if in_scope else self.root

        async def step() -> None:
            before, records = observe(self.root), ledger(self.root)
            self.veto = kind == "vetoed section"
            mounted = list(ctx.fiber.children)
            try:
                outcome = act(ctx)
                if outcome is not None:
                    await outcome
            except expected as error:
                self.is_loud(error, kind)
            else:
                raise AssertionError(f"{kind} was taken")
            finally:
                self.veto = False
            await self.settle()
            for fiber in ctx.fiber.children:
                if fiber not in mounted:
                    assert fiber.state is FiberState.FAILED
                    assert fiber.effects() == []
                    await fiber.dispose()
            left = [str(one) for one in observe(self.root).added_since(before)]
            assert left == []
            assert ledger(self.root) == records

        self.run(step())

    def is_loud(self, error: BaseException, kind: str) -> None:
        if isinstance(error, HarnessError):
            assert len(str(error)) > 15
        notes = " ".join(getattr(error, "__notes__", ()))
        if isinstance(error, Boom) and kind.startswith(("plugin", "effect")):
            assert "in plugin " in notes, kind

    @rule(name=st.sampled_from("abcdef"))
    def accept(self, name: str) -> None:
        async def step() -> None:
            try:
                self.good.append(self.owner.system_prompt.section(name, name, order=1))
            except DuplicateRegistrationError as error:
                assert error.name == name
                assert error.layer == "scope"

        self.run(step())

    @rule(size=st.one_of(st.integers(-3, 9), st.text(max_size=1), st.none()), extra=st.booleans())
    def update(self, size: Any, extra: bool) -> None:
        """An update is taken whole or changes nothing."""
        raw = {"size": size, **({"seize": 1} if extra else {})}
        before = list(self.configs)

        async def step() -> None:
            try:
                await self.configured.update(raw)
            except ConfigError as error:
                assert type(size) is not int or extra
                assert self.configs == before, "an invalid config ran"
                assert any("size" in problem for problem in error.problems)
                assert len(error.problems) == extra + (type(size) is not int)
            except Boom as error:
                assert size > 5
                assert self.configs == [*before, before[-1]], "the old config runs again"
                assert "in plugin " in " ".join(error.__notes__)
            else:
                assert type(size) is int
                assert size <= 5
                assert not extra
                assert self.configs == [*before, size]
            assert self.configured.state is FiberState.ACTIVE
            assert self.configured.config.size == self.configs[-1]

        self.run(step())

    @rule(
        fault=st.sampled_from(
            [
                "section",
                "context",
                "variable",
                "tools",
                "listener",
                "None",
                "type",
                "order",
                "complete",
                "unknown",
                "missing",
                "malformed",
                "signal",
            ]
        ),
        asynchronous=st.booleans(),
        in_scope=st.booleans(),
    )
    def assemble(self, fault: str, asynchronous: bool, in_scope: bool) -> None:
        """What goes wrong in an assembly is raised, names plugin, part and scope, and is over."""
        raising = _raises_later if asynchronous else _raises
        ctx = self.owner if in_scope else self.root

        async def step() -> None:
            before, records = observe(self.root), ledger(self.root)
            effects, expected, words = self.break_assembly(ctx, fault, raising)
            try:
                signal = _Cancelled() if fault == "signal" else None
                assembly = await self.root.system_prompt.assemble(
                    scope=self.scope.key, signal=signal
                )
                render_prompt(assembly)
            except expected as error:
                said = " ".join([str(error), *getattr(error, "__notes__", ())])
                words += [f'plugin "{ctx.fiber.name}"'] if isinstance(error, Boom) else []
                words += ["'a scope'"] if in_scope and isinstance(error, Boom) else []
                assert all(word in said for word in words), (said, words)
            else:
                raise AssertionError(f"{fault} was passed over")
            for effect in reversed(effects):
                await effect()
            assert [str(one) for one in observe(self.root).added_since(before)] == []
            assert ledger(self.root) == records

        self.run(step())

    def break_assembly(
        self, ctx: Context, fault: str, raising: Any
    ) -> tuple[list[Effect], type[BaseException], list[str]]:
        prompt = ctx.system_prompt
        if fault == "section":
            return [prompt.section("bad", raising, order=1)], Boom, ['section "bad"']
        if fault == "context":
            return [prompt.context("bad", raising, order=1)], Boom, ['context "bad"']
        if fault == "variable":
            return [prompt.variable("bad", raising)], Boom, ['variable "bad"']
        if fault == "tools":
            return [prompt.tools(raising)], Boom, ["tools"]
        if fault == "listener":
            return [ctx.on("system-prompt/assemble", raising)], Boom, ["listener"]
        if fault == "None":
            return (
                [ctx.on("system-prompt/assemble", lambda *_: None)],
                PluginError,
                ["returned None"],
            )
        if fault == "type":
            return [prompt.section("bad", lambda: 5, order=1)], ContributionError, ["expected str"]
        if fault == "order":
            tool = ToolSchema("<unlisted-tools>")
            return [prompt.tools(lambda: [tool])], ToolOrderError, ["reserved"]
        if fault == "complete":
            both = [prompt.section(n, n, order=1, complete=True) for n in ("full one", "full two")]
            return both, MultipleCompleteSectionsError, ["full one", "full two"]
        if fault == "signal":
            return [], AssemblyCancelled, ["cancelled"]
        text, expected = {
            "unknown": ("{{nobody}}", UnknownVariableError),
            "missing": ("{{nothing}}", MissingVariableError),
            "malformed": ("{{ no }}", MalformedReferenceError),
        }[fault]
        kept = [prompt.variable("nothing", lambda: None), prompt.section("bad", text, order=1)]
        return kept, expected, ['section "bad"', text]

    @rule()
    def teardown_error(self) -> None:
        """A disposer that raises stops nobody, and is reported with its owner."""
        journal: list[str] = []

        async def step() -> None:
            def plugin(ctx: Context) -> None:
                ctx.effect(lambda: lambda: journal.append("first"))
                ctx.effect(lambda: _raises, label="bad one")
                ctx.effect(lambda: _raises_later, label="bad two")
                ctx.effect(lambda: lambda: journal.append("last"))

            fiber = await self.scope.ctx.plugin(plugin)
            self.reports.clear()
            await fiber.dispose()
            assert journal == ["last", "first"]
            notes = [" ".join(error.__notes__) for _, error in self.reports]
            assert len(notes) == 2
            for note, label in zip(notes, ("bad two", "bad one"), strict=True):
                assert label in note
                assert 'plugin "plugin"' in note
                assert "'a scope'" in note

        self.run(step())

    @invariant()
    def only_the_good_is_there(self) -> None:
        assert len(self.owner.fiber.effects()) == len(self.good)
        assert self.configured.state is FiberState.ACTIVE


class _Cancelled:
    cancel_called = True


TestRefusals = Refusals.TestCase
TestRefusals.settings = laws(examples=200, steps=20)
