"""Every recorded operation answers as it was recorded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .contributions import FLAVOURS, Flavour
from .corpus import CORPUS, Case, Mismatch, chunks, differences, read_cases
from .replay import replay_case
from .tally import Tally

CHUNK_SIZE = 50
SHOWN_MISMATCHES = 5

CASES = read_cases()
CHUNKS = list(chunks(CASES, CHUNK_SIZE))


def subject(flavour: Flavour) -> str:
    """Name what a corpus run compares, for the tally."""
    return f"corpus, {flavour}"


def chunk_name(chunk: list[Case]) -> str:
    """Name a chunk after its first and last case."""
    return f"cases-{chunk[0].id}-{chunk[-1].id}"


@pytest.mark.asyncio
@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("chunk", CHUNKS, ids=chunk_name)
async def test_recorded_cases_answer_as_recorded(
    chunk: list[Case],
    flavour: Flavour,
    tally: Tally,
    record_property: Callable[[str, object], None],
) -> None:
    """Replaying a case answers every operation as the original did."""
    mismatches: list[Mismatch] = []
    for case in chunk:
        got = await replay_case(case.ops, flavour)
        mismatches += differences(case.id, case.ops, case.expected, got)[:1]
    assert not mismatches, report(mismatches)
    operations = sum(len(case.ops) for case in chunk)
    record_property("cases", len(chunk))
    record_property("operations", operations)
    tally.add(subject(flavour), cases=len(chunk), operations=operations)


def report(mismatches: list[Mismatch]) -> str:
    """Show the first mismatch of the first failing cases: later ones often only follow from it."""
    shown = [str(mismatch) for mismatch in mismatches[:SHOWN_MISMATCHES]]
    head = f"{len(mismatches)} cases answer differently; the first operation of each that does:"
    return "\n".join([head, *shown])


def test_the_corpus_is_whole() -> None:
    """The chunks hold each case of the file once, and none is empty."""
    ids = [case.id for chunk in CHUNKS for case in chunk]
    assert ids, f"{CORPUS.name} holds no case"
    assert len(ids) == len(set(ids)) == len(CASES)
    assert all(case.ops for case in CASES)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_operation_of_the_file_was_compared(
    flavour: Flavour, tally: Tally, request: pytest.FixtureRequest
) -> None:
    """A full run compares every case and operation that the file holds, and says how many."""
    if not all_chunks_selected(request.session):
        pytest.skip("only a part of the corpus was selected for this run")
    operations = sum(len(case.ops) for case in CASES)
    assert operations > 0
    assert tally.cases[subject(flavour)] == len(CASES)
    assert tally.operations[subject(flavour)] == operations


def all_chunks_selected(session: pytest.Session) -> bool:
    """Tell whether this process runs every chunk in every flavour."""
    replaying = test_recorded_cases_answer_as_recorded.__name__
    selected = [item for item in session.items if item.name.startswith(replaying)]
    return len(selected) == len(CHUNKS) * len(FLAVOURS)
