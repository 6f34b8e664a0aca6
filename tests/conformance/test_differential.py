"""Sequences that nobody recorded: this project and the original, run side by side, agree."""

from __future__ import annotations

import os

import anyio
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from .contributions import FLAVOURS, Flavour
from .corpus import Op, differences, read_cases
from .original_process import Original
from .replay import replay_case
from .sequences import operations
from .tally import Tally

EXAMPLES = int(os.environ.get("HARNESS_DIFF_EXAMPLES", "150"))


def test_the_original_answers_as_it_was_recorded(original: Original, tally: Tally) -> None:
    """The driver reproduces the whole corpus, so its answer to a fresh sequence can be trusted."""
    cases = read_cases()
    for case in cases:
        mismatches = differences(case.id, case.ops, case.expected, original.replay(case.ops))
        assert not mismatches, str(mismatches[0])
    operations_compared = sum(len(case.ops) for case in cases)
    tally.add("original against the corpus", cases=len(cases), operations=operations_compared)


@settings(
    max_examples=EXAMPLES,
    deadline=None,  # an example starts a tree on each side; how long that takes proves nothing
    phases=[Phase.reuse, Phase.generate, Phase.shrink],  # the others trace every line: too slow
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(ops=operations(), flavour=st.sampled_from(FLAVOURS))
def test_fresh_sequences_answer_as_the_original(
    original: Original, tally: Tally, ops: list[Op], flavour: Flavour
) -> None:
    """Any sequence of operations has the same answers here and in the original."""
    expected = original.replay(ops)
    got = anyio.run(replay_case, ops, flavour)
    mismatches = differences(f"drawn ({flavour})", ops, expected, got)
    if mismatches:
        note("the operations of the case:")
        for index, op in enumerate(ops):
            note(f"  {index}: {op}")
    assert not mismatches, str(mismatches[0])
    tally.add("fresh sequences", cases=1, operations=len(ops))
