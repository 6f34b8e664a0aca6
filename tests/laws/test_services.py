"""Services: who must be active, on which provider, and how often it has loaded.

Providers come, go and are replaced; consumers wait for several keys, and some provide a key
themselves. The model computes what must run from what is provided, and when that must have cost
a load. Each consumer checks, while it lives and until the end of its teardown, that whoever
provides for it is still there (L3: withdrawing first unloads the consumers and waits for them).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import attrs
from anyio.lowlevel import checkpoint
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from harness_core import Context, Fiber, FiberState
from harness_core.errors import ServiceAccessError, ServiceConflictError

from .machine import Boom, TreeMachine, laws

KEYS = ("a", "b", "c")
CHAINED = ("x", "y")


class Resource:
    """What a provider publishes: open from before it is published until after its last user."""

    def __init__(self, journal: list[str]) -> None:
        self.open = True
        self.journal = journal

    def use(self) -> None:
        if not self.open:
            self.journal.append("a consumer used a service whose provider is gone")


@attrs.define(eq=False)
class Provider:
    number: int
    keys: tuple[str, ...]
    asynchronous: bool
    fiber: Fiber | None = None


@attrs.define(eq=False)
class Consumer:
    number: int
    needs: tuple[str, ...]
    provides: str | None
    asynchronous: bool
    slow_undo: bool
    fails_on: int
    fiber: Fiber | None = None
    loads: int = 0
    loaded_with: tuple[int, ...] | None = None
    # The model's idea of it:
    expected_loads: int = 0
    expected_with: tuple[Any, ...] | None = None
    failed_with: tuple[Any, ...] | None = None

    @property
    def expected_state(self) -> FiberState:
        if self.expected_with is None:
            return FiberState.FAILED if self.failed_with is not None else FiberState.PENDING
        return FiberState.ACTIVE


class Services(TreeMachine):
    def __init__(self) -> None:
        self.providers: list[Provider] = []
        self.consumers: list[Consumer] = []
        self.numbers = 0
        self.faults: list[str] = []
        super().__init__()

    # Plugins

    def provider_plugin(self, provider: Provider) -> Any:
        def body(ctx: Context) -> None:
            resource = Resource(self.faults)

            def close() -> None:
                resource.open = False

            ctx.effect(lambda: close, label="resource")
            for key in provider.keys:
                ctx.provide(key, resource)

        async def slow(ctx: Context) -> None:
            await checkpoint()
            body(ctx)
            await anyio.sleep(0.01)

        plugin: Any = slow if provider.asynchronous else body
        plugin.name = f"provider{provider.number}"
        return plugin

    def consumer_plugin(self, consumer: Consumer) -> Any:
        def set_up(ctx: Context) -> Iterator[None]:
            consumer.loads += 1
            services = [ctx[key] for key in consumer.needs]

            def use() -> None:
                for service in services:
                    service.use()

            use()
            yield None
            use()
            own = Resource(self.faults)

            def close() -> None:
                own.open = False
                use()

            async def slow_close() -> None:
                use()
                await anyio.sleep(0.02)
                close()

            ctx.effect(lambda: slow_close if consumer.slow_undo else close, label="user")
            if consumer.loads == consumer.fails_on:
                raise Boom
            if consumer.provides is not None:
                ctx.provide(consumer.provides, own)

        def body(ctx: Context) -> None:
            for _ in set_up(ctx):
                pass

        async def slow(ctx: Context) -> None:
            for _ in set_up(ctx):
                await checkpoint()
                await anyio.sleep(0.01)

        plugin: Any = slow if consumer.asynchronous else body
        plugin.inject = list(consumer.needs)
        plugin.name = f"consumer{consumer.number}"
        return plugin

    # The model

    def available(self) -> dict[str, Any]:
        """What each key is bound to: a provider, or one load of a consumer."""
        bound: dict[str, Any] = {
            key: ("provider", provider.number)
            for provider in self.providers
            for key in provider.keys
        }
        for consumer in self.consumers:
            if consumer.provides is not None and consumer.expected_with is not None:
                bound[consumer.provides] = (
                    "consumer",
                    consumer.number,
                    consumer.expected_loads,
                )
        return bound

    def expect(self) -> None:
        """Work out what must run now; a consumer that is given other things has loaded anew."""
        # A consumer needs only keys that stand before the one it provides, so one pass will do.
        order = sorted(self.consumers, key=lambda one: (one.provides or "z", one.number))
        for consumer in order:
            bound = self.available()
            if not all(key in bound for key in consumer.needs):
                consumer.expected_with = None
                continue
            given = tuple(bound[key] for key in consumer.needs)
            if given in (consumer.expected_with, consumer.failed_with):
                continue
            self.load(consumer, given)

    def load(self, consumer: Consumer, given: tuple[Any, ...]) -> None:
        consumer.expected_loads += 1
        failed = consumer.expected_loads == consumer.fails_on
        consumer.failed_with = given if failed else None
        consumer.expected_with = None if failed else given

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def taken(self) -> set[str]:
        return {key for provider in self.providers for key in provider.keys}

    # Rules

    @rule(keys=st.sets(st.sampled_from(KEYS), min_size=1), asynchronous=st.booleans())
    def provide(self, keys: set[str], asynchronous: bool) -> None:
        """Several keys that arrive together cost their consumers one load."""
        provider = Provider(self.number(), tuple(sorted(keys)), asynchronous)
        conflict = bool(self.taken() & keys)

        async def step() -> None:
            provider.fiber = self.root.plugin(self.provider_plugin(provider))
            try:
                await provider.fiber
            except ServiceConflictError as error:
                assert conflict
                assert error.key in keys
                assert error.holder.startswith("root/provider")
                await provider.fiber.dispose()
            else:
                assert not conflict
            await self.settle()

        self.run(step())
        if not conflict:
            self.providers.append(provider)
            self.expect()

    @precondition(lambda self: self.providers)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        provider = data.draw(st.sampled_from(self.providers))
        self.providers.remove(provider)

        async def step() -> None:
            assert provider.fiber is not None
            await provider.fiber.dispose()
            await self.settle()

        self.run(step())
        self.expect()

    def single(self) -> list[Provider]:
        """The providers of one key: those of several give back one after the other."""
        return [provider for provider in self.providers if len(provider.keys) == 1]

    @precondition(lambda self: self.single())
    @rule(data=st.data(), asynchronous=st.booleans())
    def replace(self, data: st.DataObject, asynchronous: bool) -> None:
        """Another provider takes over before anybody has had time to settle."""
        old = data.draw(st.sampled_from(self.single()))
        new = Provider(self.number(), old.keys, asynchronous)
        self.providers[self.providers.index(old)] = new

        async def step() -> None:
            assert old.fiber is not None
            gone = old.fiber.dispose()
            new.fiber = self.root.plugin(self.provider_plugin(new))
            await gone
            await new.fiber
            await self.settle()

        self.run(step())
        self.expect()

    @precondition(lambda self: self.providers)
    @rule(data=st.data())
    def restart_provider(self, data: st.DataObject) -> None:
        provider = data.draw(st.sampled_from(self.providers))
        provider.number = self.number()  # what it provides is another thing from now on

        async def step() -> None:
            assert provider.fiber is not None
            await provider.fiber.restart()
            await self.settle()

        self.run(step())
        self.expect()

    @rule(
        needs=st.sets(st.sampled_from((*KEYS, *CHAINED)), min_size=1, max_size=3),
        asynchronous=st.booleans(),
        slow_undo=st.booleans(),
        fails_on=st.sampled_from((0, 0, 0, 1, 2)),
        data=st.data(),
    )
    def consume(
        self,
        needs: set[str],
        asynchronous: bool,
        slow_undo: bool,
        fails_on: int,
        data: st.DataObject,
    ) -> None:
        free = [
            key
            for key in CHAINED
            if key > max(needs) and not any(one.provides == key for one in self.consumers)
        ]
        provides = data.draw(st.sampled_from([None, *free]))
        consumer = Consumer(
            self.number(), tuple(sorted(needs)), provides, asynchronous, slow_undo, fails_on
        )
        self.consumers.append(consumer)

        async def step() -> None:
            consumer.fiber = self.root.plugin(self.consumer_plugin(consumer))
            await self.settle()

        self.run(step())
        self.expect()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def dispose_consumer(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)

        async def step() -> None:
            assert consumer.fiber is not None
            await consumer.fiber.dispose()
            await self.settle()

        self.run(step())
        self.expect()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def restart_consumer(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        given = consumer.expected_with or consumer.failed_with
        bound = self.available()
        if given is not None and all(key in bound for key in consumer.needs):
            self.load(consumer, tuple(bound[key] for key in consumer.needs))
        else:
            consumer.failed_with = None

        async def step() -> None:
            assert consumer.fiber is not None
            try:
                await consumer.fiber.restart()
            except Boom:
                pass
            await self.settle()

        self.run(step())
        self.expect()

    @precondition(lambda self: self.single())
    @rule(data=st.data(), turns=st.integers(0, 6))
    def flicker(self, data: st.DataObject, turns: int) -> None:
        """A provider goes and comes back at any moment of its consumers' loads and unloads."""
        provider = data.draw(st.sampled_from(self.single()))
        waiting = [one for one in self.consumers if set(one.needs) & set(provider.keys)]
        before = {one.number: one.loads for one in self.consumers}

        async def step() -> None:
            for _ in range(2):
                assert provider.fiber is not None
                gone = provider.fiber.dispose()
                for _ in range(turns):
                    await checkpoint()
                provider.number = self.number()
                provider.fiber = self.root.plugin(self.provider_plugin(provider))
                for _ in range(turns):
                    await checkpoint()
                await gone
            await self.settle()

        self.run(step())
        self.expect()
        for consumer in self.consumers:
            # How often it loaded on the way depends on the moment; at most once for each return.
            extra = consumer.loads - before[consumer.number]
            if consumer in waiting:
                assert extra <= 2
            if consumer.fails_on and consumer.loads >= consumer.fails_on:
                consumer.fails_on = 0
            consumer.expected_loads = consumer.loads
        self.resynchronise()

    def resynchronise(self) -> None:
        """Take over what a race has decided: which of the loads it was that failed."""
        bound: dict[str, Any] = {}
        for consumer in sorted(self.consumers, key=lambda one: (one.provides or "z", one.number)):
            bound = self.available()
            there = all(key in bound for key in consumer.needs)
            given = tuple(bound[key] for key in consumer.needs) if there else None
            assert consumer.fiber is not None
            if consumer.fiber.state is FiberState.FAILED:
                consumer.failed_with, consumer.expected_with = given or (), None
            else:
                consumer.failed_with, consumer.expected_with = None, given

    # What must hold after each rule

    @invariant()
    def consumers_are_as_the_model_says(self) -> None:
        assert self.faults == []
        bound = self.available()
        for consumer in self.consumers:
            fiber = consumer.fiber
            assert fiber is not None
            assert fiber.state is consumer.expected_state, consumer
            assert consumer.loads == consumer.expected_loads, consumer
            if fiber.state is FiberState.PENDING:
                assert fiber.waiting_for == [key for key in consumer.needs if key not in bound]
            self.reads(consumer, fiber, bound)

    def reads(self, consumer: Consumer, fiber: Fiber, bound: dict[str, Any]) -> None:
        for key in (*KEYS, *CHAINED):
            if key in consumer.needs and key in bound:
                assert fiber.ctx[key].open
                assert fiber.ctx.get(key) is fiber.ctx[key]
                continue
            assert (fiber.ctx.get(key) is not None) == (key in bound)
            if key == consumer.provides and key in bound:
                continue
            try:
                _ = fiber.ctx[key]
            except ServiceAccessError as error:
                assert error.key == key
            else:
                raise AssertionError(f"{fiber.path} reads {key}")

    @invariant()
    def the_root_reads_what_there_is(self) -> None:
        assert sorted(self.root.kernel.services.keys()) == sorted(self.available())

    def teardown(self) -> None:
        async def step() -> None:
            for consumer in self.consumers[::2]:
                assert consumer.fiber is not None
                await consumer.fiber.dispose()
            for provider in self.providers:
                assert provider.fiber is not None
                await provider.fiber.dispose()
            for consumer in self.consumers[1::2]:
                assert consumer.fiber is not None
                await consumer.fiber.dispose()

        try:
            if not self.has_failed():
                self.run(step())
                assert self.faults == []
                assert self.run(self.residue()) == []
        finally:
            super().teardown()


TestServices = Services.TestCase
TestServices.settings = laws(examples=200, steps=20)
