"""Mounts: rows of a manifest as fibers, and which fiber runs which row.

A row is its fiber: disposing the fiber also takes back what the row's name imported. Rows may
come in any order, since plugins wait for the services they inject. Contract: section 8.
"""

from __future__ import annotations

from collections.abc import Iterable

from .. import Context, Effect, Fiber, FiberState, Service
from ..errors import ManifestError, PluginError
from ..kernel.plugin import PluginSpec, read_plugin
from .claim import Claim
from .manifest import Entry, Manifest, read_entries
from .mounted import MountedEntry, provided_by
from .places import Place, located, plain
from .plan import seats_of
from .resolve import Found, Resolver
from .wrapped import Group, derived, wrapped

__all__ = ["Mounts"]


class Mounts(Service):
    """Mounts rows: the manifest's own, and those that plugins are given.

    `directory` is where relative paths in the manifest start.
    """

    def __init__(self, manifest: Manifest, resolver: Resolver) -> None:
        self.manifest = manifest
        self.resolver = resolver
        self.directory = manifest.directory
        self.default: tuple[str, ...] = ()
        self.base: Context | None = None
        """The context that the manifest's rows are mounted below, once it has been started."""
        self.entries: dict[str, Entry] = {}
        """The rows that apply, by id."""
        self.running: dict[str, Fiber] = {}
        """The fibers of the manifest's rows, by id."""
        self.mounted: dict[Fiber, MountedEntry] = {}
        self.mounting: list[Entry] = []
        """Rows whose plugins are being mounted just now, outermost first."""
        self.refused: dict[str, ManifestError] = {}
        """By id: the manifest's rows that could not be mounted at all, and why."""
        self.claims: dict[str, Claim] = {}
        """By id: fibers that wait for their new place, while rows are being reconciled."""
        self.replaced: dict[str, Fiber] = {}
        """By id: fibers that are unloaded, and in whose place another plugin is mounted."""
        self.dormant: frozenset[str] = frozenset()
        """Ids of rows that are not to be mounted for the moment."""
        self.prepared: dict[tuple[str, str | None], Found] = {}
        """By id and name: plugins that have been found already."""

    # Mounting

    def start(self, default: Iterable[str] = ()) -> None:
        """Mount the manifest's rows, in file order, below the calling context.

        `default` names plugins that are mounted first unless a row of the manifest names them.
        A row that cannot be mounted is noted in `refused` and stops no other.
        """
        self.base = ctx = self._caller
        self.default = tuple(default)
        ctx.on("fiber/state", self._state_changed, unfiltered=True)
        rows = self.rows_of(self.manifest)
        self.take_rows(rows)
        self.mount_rows(ctx, rows)

    def rows_of(self, manifest: Manifest) -> tuple[Entry, ...]:
        """Return the rows of a manifest, those for default plugins that it does not name first."""
        rows = [*manifest.walk()]
        named, ids = {entry.name for entry in rows}, {entry.id for entry in rows}
        place = Place(manifest.file)
        missing = [
            Entry(f"{name} (default)" if name in ids else name, name, place=place)
            for name in self.default
            if name not in named and name not in self.manifest.disable
        ]
        return (*missing, *manifest.entries)

    def take_rows(self, rows: Iterable[Entry]) -> None:
        """Make these the rows that apply, without mounting any."""
        self.entries = {entry.id: entry for row in rows for entry in row.walk()}

    def mount_rows(self, ctx: Context, rows: Iterable[Entry]) -> None:
        """Mount rows of the manifest below a context, but for those that run there already."""
        for entry in rows:
            if entry.disabled or entry.id in self.dormant:
                continue
            claim = self.claims.pop(entry.id, None)
            fiber = self.running.get(entry.id)
            if claim is not None:
                self.mounted[claim.fiber] = claim.take(ctx, entry, self.mounted[claim.fiber])
                self.running[entry.id] = claim.fiber
            elif fiber is None or fiber.is_ending:
                self._mount_or_note(ctx, entry)
            else:
                self.mounted[fiber] = self.mounted[fiber].of(entry)
                if entry.group and fiber.state is FiberState.ACTIVE:
                    self.mount_rows(fiber.ctx, entry.children)

    def mount_children(self, ctx: Context, group: str) -> None:
        """Mount the rows of a group below its context."""
        entry = self.entries.get(group)
        if entry is not None:
            self.mount_rows(ctx, entry.children)

    def mount(self, rows: object) -> list[Fiber]:
        """Mount rows, given as plain data, below the calling context; return their fibers.

        All or nothing: raises ManifestError for the first faulty row, with nothing mounted.
        """
        ctx = self._caller
        entries = read_entries(self._written(rows, ctx), place=Place(self.manifest.file))
        fibers: list[Fiber] = []
        try:
            for entry in entries:
                fibers += self._mount_given(ctx, entry)
        except BaseException:
            for fiber in reversed(fibers):
                fiber.dispose()
            raise
        return fibers

    def _written(self, rows: object, ctx: Context) -> object:
        """Return the rows as the manifest holds them, places and all, if they come from it."""
        fiber: Fiber | None = ctx.fiber
        while fiber is not None and fiber not in self.mounted:
            fiber = fiber.parent
        entries = self.mounting[-1:] or ([self.mounted[fiber].entry] if fiber else [])
        return located(rows, entries[0].config) if entries else rows

    def _mount_given(self, ctx: Context, entry: Entry) -> list[Fiber]:
        if entry.disabled:
            return []
        if not entry.group:
            return self._mount(ctx, entry, ctx.fiber, is_own=False)

        def children(inner: Context, _: str) -> None:
            for child in entry.children:
                try:
                    self._mount_given(inner, child)
                except ManifestError as fault:
                    self.refused[child.id] = fault

        group = Group(entry, children)
        return self._mount(ctx, entry, ctx.fiber, is_own=False, found=Found(group))

    def _mount_or_note(self, ctx: Context, entry: Entry) -> None:
        try:
            self.refused.pop(entry.id, None)
            home = self.base.fiber if self.base is not None else ctx.fiber
            self._mount(ctx, entry, home, is_own=True)
        except ManifestError as fault:
            self.refused[entry.id] = fault

    def _mount(
        self,
        ctx: Context,
        entry: Entry,
        home: Fiber,
        *,
        is_own: bool,
        found: Found | None = None,
    ) -> list[Fiber]:
        """Mount one row; `home` owns what its name imports."""
        found = found or self.prepared.get((entry.id, entry.name)) or self.find(entry)[0]
        module: Effect | None = None
        if found.forget is not None:
            found.enter()
            module = home.register(("module", entry.name or ""), found.forget)
        plugin = wrapped(found.plugin, entry)
        self.mounting.append(entry)
        try:
            fiber = derived(ctx, entry).mount(
                plugin,
                plain(entry.config),
                _name=found.label,
                _in_place_of=self.replaced.get(entry.id) if is_own else None,
            )
        except BaseException:
            if module is not None:
                module()
            raise
        finally:
            self.mounting.pop()
        if fiber.state is FiberState.DISPOSED:  # its body disposed it
            if module is not None:
                module()
            return []
        provides = provided_by(found.plugin, read_plugin(found.plugin))
        self.mounted[fiber] = MountedEntry(entry, fiber, provides, module, found, is_own)
        if is_own:
            self.running[entry.id] = fiber
        return [fiber]

    def giver_of(self, fiber: Fiber) -> str | None:
        """Return the id of the row whose plugin was given the row of `fiber`; None for others."""
        mounted = self.mounted.get(fiber)
        while mounted is not None and not mounted.is_own:
            above = fiber.parent
            while above is not None and above not in self.mounted:
                above = above.parent
            if above is None:
                return None
            fiber, mounted = above, self.mounted[above]
            if mounted.is_own:
                return mounted.entry.id
        return None

    def find(self, entry: Entry) -> tuple[Found, PluginSpec]:
        """Return the plugin that a row names; raise ManifestError, at the row, if there is none."""
        if entry.group:
            group = Group(entry, self.mount_children)
            return Found(group), read_plugin(group)
        assert entry.name is not None
        found: Found | None = None
        try:
            found = self.resolver.resolve(entry.name)
            return found, read_plugin(found.plugin)
        except PluginError as error:
            if found is not None and found.forget is not None:
                found.forget()
            raise entry.place_of("name").fault(str(error)) from (error.__cause__ or error)

    def _state_changed(self, fiber: Fiber, _: FiberState) -> None:
        if fiber.state is not FiberState.DISPOSED:
            return
        mounted = self.mounted.pop(fiber, None)
        if mounted is None:
            return
        if self.running.get(mounted.entry.id) is fiber:
            del self.running[mounted.entry.id]
        if mounted.module is not None:
            mounted.module()

    def missing(self) -> frozenset[str]:
        """Return the ids of rows that do not run, though nothing keeps them from it."""
        found: set[str] = set()
        for one, seat in seats_of(self.rows_of(self.manifest)).items():
            group = self.running.get(seat.group) if seat.group is not None else None
            is_due = (
                seat.group is None
                or seat.group in found
                or (group is not None and group.state is FiberState.ACTIVE)
            )
            if is_due and not seat.entry.disabled and one not in self.running:
                found.add(one)
        return frozenset(found)
