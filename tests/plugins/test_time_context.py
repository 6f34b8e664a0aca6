"""`time_context`: the time, as coarse as asked, and nothing finer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import pytest
from harness_plugins import time_context
from harness_plugins.time_context.api import WALL_CLOCK
from harness_plugins.time_context.wording import Granularity, say
from harness_plugins.time_context.zone import find_zone, local_zone
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core import Context, override
from harness_core.errors import ConfigError
from harness_core.prompt import PromptAssembly, SystemPrompt
from harness_core.testing import assert_no_residue, check_plugin, run_with_virtual_clock

EVENING = datetime(2026, 11, 30, 20, 11, 42, tzinfo=UTC)
BERLIN = find_zone("Europe/Berlin")
GRANULARITIES: tuple[Granularity, ...] = ("day", "hour", "quarter", "minute")
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe",
         "Africa/Casablanca", "Asia/Beirut", "Pacific/Apia", "America/Santiago"]  # fmt: skip


async def assemble(
    fields: dict[str, Any] | None = None, now: Any = EVENING, **config: Any
) -> PromptAssembly:
    async with Context() as root:
        root.provide(WALL_CLOCK, lambda: now)
        await root.plugin(SystemPrompt)
        await root.plugin(time_context, {"zone": "Europe/Berlin", **config})
        return await root.system_prompt.assemble(**fields or {})


async def said(fields: dict[str, Any] | None = None, now: Any = EVENING, **config: Any) -> str:
    (context,) = (await assemble(fields, now, **config)).contexts
    assert (context.name, context.literal) == ("time", True)
    return context.text


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("granularity", "text"),
    [
        ("day", "Current date: Monday, 2026-11-30 (Europe/Berlin)"),
        (
            "hour",
            "Current time: Monday, 2026-11-30, between 21:00 and 22:00 (Europe/Berlin, UTC+01:00)",
        ),
        (
            "quarter",
            "Current time: Monday, 2026-11-30, between 21:00 and 21:15 (Europe/Berlin, UTC+01:00)",
        ),
        ("minute", "Current time: Monday, 2026-11-30, 21:11 (Europe/Berlin, UTC+01:00)"),
    ],
)
async def test_the_time_is_told_as_finely_as_configured(granularity: str, text: str) -> None:
    """In the configured zone, with its name and its distance to UTC; by default the hour."""
    assert await said(granularity=granularity) == text
    if granularity == "hour":
        assert await said() == text


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("UTC", "Monday, 2026-11-30, 20:11 (UTC)"),
        ("Asia/Kathmandu", "Tuesday, 2026-12-01, 01:56 (Asia/Kathmandu, UTC+05:45)"),
        ("America/St_Johns", "Monday, 2026-11-30, 16:41 (America/St_Johns, UTC-03:30)"),
    ],
)
def test_zones_may_be_anywhere(zone: str, text: str) -> None:
    """Day and weekday are those of the zone."""
    assert say(EVENING, find_zone(zone), "minute", None) == f"Current time: {text}"


def test_the_last_hour_of_a_day_ends_at_24() -> None:
    """And not at the 00:00 that the day began with."""
    late = EVENING + timedelta(hours=2)
    assert "2026-11-30, between 23:00 and 24:00" in say(late, BERLIN, "hour", None)
    assert "between 23:45 and 24:00" in say(late + timedelta(minutes=35), BERLIN, "quarter", None)


def test_the_hour_that_comes_twice_is_told_apart() -> None:
    """When clocks are set back, and when they are set forward no hour is named that is not."""
    back = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert "02:00 and 03:00 (Europe/Berlin, UTC+02:00)" in say(back, BERLIN, "hour", None)
    later = back + timedelta(hours=1)
    assert "02:00 and 03:00 (Europe/Berlin, UTC+01:00)" in say(later, BERLIN, "hour", None)
    forward = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert "03:00 and 04:00 (Europe/Berlin, UTC+02:00)" in say(forward, BERLIN, "hour", None)


def test_what_has_passed_is_real_time_and_not_the_difference_of_clocks() -> None:
    """Across a change of the clocks, from zone to zone."""
    before = datetime(2026, 10, 25, 0, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    after = datetime(2026, 10, 25, 4, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    assert say(after, BERLIN, "hour", before).endswith("\nLast message: at least 5 hours ago")
    elsewhere = before.astimezone(ZoneInfo("Asia/Tokyo"))
    assert say(after, BERLIN, "hour", elsewhere) == say(after, BERLIN, "hour", before)


def test_a_day_begins_at_its_first_moment() -> None:
    """Where clocks go forward at midnight, that is one o'clock: here 30 March, 22:00 UTC."""
    noon = datetime(2024, 3, 31, 12, tzinfo=ZoneInfo("Asia/Beirut"))
    beirut = find_zone("Asia/Beirut")
    begin = datetime(2024, 3, 30, 22, tzinfo=UTC)
    exactly, less = begin - timedelta(days=1), begin - timedelta(hours=23, minutes=59)
    assert say(noon, beirut, "day", exactly).endswith("at least 1 day ago")
    assert say(noon, beirut, "day", less) == "Current date: Sunday, 2024-03-31 (Asia/Beirut)"


@pytest.mark.parametrize(
    ("granularity", "ago", "text"),
    [
        ("minute", timedelta(seconds=102), "1 minute"),
        ("minute", timedelta(minutes=119, seconds=42), "119 minutes"),
        ("minute", timedelta(hours=2, seconds=42), "2 hours"),
        ("quarter", timedelta(minutes=40), "28 minutes"),
        ("hour", timedelta(hours=1, minutes=12), "1 hour"),
        ("hour", timedelta(hours=30, minutes=12), "30 hours"),
        ("hour", timedelta(days=5), "4 days"),
        ("day", timedelta(days=2), "1 day"),
        ("day", timedelta(days=30), "29 days"),
    ],
)
def test_what_has_passed_since_the_last_message_is_as_coarse(
    granularity: Granularity, ago: timedelta, text: str
) -> None:
    """In units no finer than the grid, measured up to the beginning of the cell."""
    lines = say(EVENING, BERLIN, granularity, EVENING - ago).split("\n")
    assert lines[1:] == [f"Last message: at least {text} ago"]


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("ago", [timedelta(seconds=30), timedelta(0), -timedelta(days=3)])
def test_a_message_of_just_now_is_not_worth_a_line(
    granularity: Granularity, ago: timedelta
) -> None:
    """Nor one that a wrong clock has put into the future."""
    assert say(EVENING, BERLIN, granularity, EVENING - ago) == say(
        EVENING, BERLIN, granularity, None
    )


@pytest.mark.asyncio
async def test_the_last_message_is_a_field_of_the_assembly() -> None:
    """Where there is none, or nobody sets the field, or it is turned off, nothing is said."""
    yesterday = EVENING - timedelta(hours=25)
    assert (await said({"last_message_at": yesterday})).endswith("at least 24 hours ago")
    silent = await said()
    assert await said({"last_message_at": None}) == silent
    assert await said({"last_message_at": yesterday}, elapsed=False) == silent


@pytest.mark.asyncio
@pytest.mark.parametrize("wrong", [datetime(2026, 1, 1), "yesterday", 5])
async def test_a_time_without_a_zone_fails_no_assembly(wrong: object) -> None:
    """It is left out, and said what is wrong."""
    assembly = await assemble({"last_message_at": wrong})
    assert assembly.contexts == []
    (explained,) = [one for one in assembly.explain() if one.kind == "context"]
    assert explained.status == "failed"
    assert "expected a datetime with its zone" in str(explained.reason)
    assert (await assemble(now=wrong)).contexts == []


MOMENTS = st.datetimes(
    min_value=datetime(2000, 1, 1),
    max_value=datetime(2037, 12, 31),
    timezones=st.just(UTC),
)
GRID = {"day": None, "hour": 60, "quarter": 15, "minute": 1}


@settings(max_examples=300, deadline=None)
@given(
    MOMENTS,
    st.sampled_from(ZONES),
    st.sampled_from(GRANULARITIES),
    st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=90)),
    st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=2)),
)
def test_the_text_changes_with_the_grid_and_never_in_between(
    now: datetime, name: str, granularity: Granularity, ago: timedelta, step: timedelta
) -> None:
    """Two moments of one cell have one text, whatever the last message; others have another."""
    zone, later, last = find_zone(name), now + step, now - ago
    same = _cell(zone.at(now), granularity) == _cell(zone.at(later), granularity)
    assert (say(now, zone, granularity, None) == say(later, zone, granularity, None)) == same
    if same:
        assert say(now, zone, granularity, last) == say(later, zone, granularity, last)


def _cell(local: datetime, granularity: Granularity) -> object:
    if granularity == "day":
        return local.date()
    minutes = GRID[granularity]
    assert minutes is not None
    return local.date(), local.hour, local.minute // minutes, local.utcoffset()


UNITS = {"day": timedelta(days=1), "hour": timedelta(hours=1), "minute": timedelta(minutes=1)}


@settings(max_examples=300, deadline=None)
@given(
    MOMENTS,
    st.sampled_from(ZONES),
    st.sampled_from(GRANULARITIES),
    st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=90)),
)
def test_at_least_means_at_least(
    now: datetime, name: str, granularity: Granularity, ago: timedelta
) -> None:
    """What is said has really passed, and not much more has: a unit and a cell."""
    _, _, line = say(now, find_zone(name), granularity, now - ago).partition("\n")
    cell = timedelta(minutes=GRID[granularity] or 25 * 60)
    if not line:
        finest = {"day": "day", "hour": "hour"}.get(granularity, "minute")
        assert ago < UNITS[finest] + cell
        return
    count, unit = line.removeprefix("Last message: at least ").removesuffix(" ago").split()
    length = UNITS[unit.removesuffix("s")]
    assert int(count) * length <= ago < (int(count) + 1) * length + cell
    assert unit.endswith("s") == (count != "1")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"zone": "Europe/Berlni"}, "did you mean 'Europe/Berlin'"),
        ({"zone": "Kathmandu"}, "did you mean 'Asia/Kathmandu'"),
        ({"zone": "../../etc/passwd"}, "expected one such as"),
        ({"zone": "Europe"}, "is unknown"),
        ({"zone": ""}, "is unknown"),
        ({"granularity": "second"}, "granularity"),
    ],
)
async def test_impossible_settings_are_refused(config: dict[str, str], problem: str) -> None:
    """At load, with what would be right."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        with pytest.raises(ConfigError, match=problem):
            await root.plugin(time_context, config)


@pytest.fixture
def machine_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Sets the zone of this process, and puts it back."""
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("Asia/Tokyo", "Tuesday, 2026-12-01, 05:11 (Asia/Tokyo, UTC+09:00)"),
        (":Asia/Tokyo", "Tuesday, 2026-12-01, 05:11 (Asia/Tokyo, UTC+09:00)"),
        ("XYZ-3:30", "Monday, 2026-11-30, 23:41 (UTC+03:30)"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "Monday, 2026-11-30, 21:11 (UTC+01:00)"),
    ],
)
def test_without_a_zone_it_is_the_machines(
    machine_zone: pytest.MonkeyPatch, variable: str, text: str
) -> None:
    """By its name if it has one, otherwise by its distance to UTC."""
    machine_zone.setenv("TZ", variable)
    time.tzset()
    assert say(EVENING, local_zone(), "minute", None) == f"Current time: {text}"


def test_the_machines_rules_hold_without_a_name(machine_zone: pytest.MonkeyPatch) -> None:
    """Summer is summer, and a day begins at its midnight."""
    machine_zone.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    july = datetime(2026, 7, 1, 20, 11, tzinfo=UTC)
    assert say(july, local_zone(), "minute", None).endswith("22:11 (UTC+02:00)")
    last = datetime(2026, 6, 29, 22, tzinfo=UTC)  # midnight, two days before the evening
    assert say(july, local_zone(), "day", last).endswith("at least 1 day ago")


@pytest.mark.asyncio
async def test_by_default_the_clock_is_the_machines() -> None:
    """Its hour, in its zone."""
    before = local_zone().at(datetime.now(UTC))
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(time_context)
        (context,) = (await root.system_prompt.assemble()).contexts
    after = local_zone().at(datetime.now(UTC))
    begins = [f"{each:%Y-%m-%d}, between {each:%H}:00 and " for each in (before, after)]
    assert any(begin in context.text for begin in begins)


def test_a_clock_can_be_put_in_its_place() -> None:
    """The virtual one of the testing kit, here: an hour of waiting is the next hour."""

    async def main() -> list[str]:
        async with Context() as root:
            root.provide(WALL_CLOCK, lambda: EVENING)
            await root.plugin(SystemPrompt)
            await root.plugin(time_context, {"zone": "UTC"})
            texts: list[str] = []
            with override(
                root, WALL_CLOCK, lambda: EVENING + timedelta(seconds=anyio.current_time())
            ):
                for _ in range(3):
                    (context,) = (await root.system_prompt.assemble()).contexts
                    texts.append(context.text)
                    await anyio.sleep(1500)
            return texts

    first, second, third = run_with_virtual_clock(main)
    assert first == second
    assert first == "Current time: Monday, 2026-11-30, between 20:00 and 21:00 (UTC)"
    assert third == "Current time: Monday, 2026-11-30, between 21:00 and 22:00 (UTC)"


@pytest.mark.asyncio
async def test_it_stands_last_is_off_when_it_is_off_and_leaves_nothing() -> None:
    """Order 90; `enabled: false` registers nothing."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        root.system_prompt.context("git", "x", order=50)
        async with assert_no_residue(root):
            fiber = await root.plugin(time_context, {"zone": "UTC"})
            names = [context.name for context in (await root.system_prompt.assemble()).contexts]
            assert names == ["git", "time"]
            await fiber.update({"enabled": False})
            names = [context.name for context in (await root.system_prompt.assemble()).contexts]
            assert names == ["git"]
            await fiber.dispose()
    await check_plugin(time_context, {"zone": "UTC"}, raises=True)
