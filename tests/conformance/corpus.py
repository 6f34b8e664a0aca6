"""The recorded cases: how they are read, cut into chunks and compared. Knows no implementation."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs

__all__ = [
    "CORPUS",
    "Case",
    "Json",
    "Mismatch",
    "Op",
    "chunks",
    "differences",
    "read_cases",
    "same",
]

Json: TypeAlias = Any
Op: TypeAlias = dict[str, Any]

CORPUS = Path(__file__).with_name("cases.jsonl.gz")


@attrs.frozen
class Case:
    """One recorded tree: what was done to it, and what each operation answered."""

    id: int
    ops: list[Op]
    expected: list[Json]


@attrs.frozen
class Mismatch:
    """One operation that answered otherwise than expected."""

    case: int | str
    index: int
    op: Op
    expected: Json
    got: Json

    def __str__(self) -> str:
        """Name everything that is needed to replay the operation by hand."""
        return (
            f"case {self.case}, op {self.index}: {_show(self.op)}\n"
            f"  expected {_show(self.expected)}\n"
            f"  got      {_show(self.got)}"
        )


def read_cases(path: Path = CORPUS) -> list[Case]:
    """Read every case of the file, in its order."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        return [_case(json.loads(line)) for line in lines]


def _case(record: Json) -> Case:
    steps = record["ops"]
    return Case(
        id=record["id"],
        ops=[step["do"] for step in steps],
        expected=[step["expect"] for step in steps],
    )


def chunks(cases: Sequence[Case], size: int) -> Iterator[list[Case]]:
    """Cut the cases into consecutive runs of at most `size`."""
    for start in range(0, len(cases), size):
        yield list(cases[start : start + size])


def differences(
    case: int | str, ops: Sequence[Op], expected: Sequence[Json], got: Sequence[Json]
) -> list[Mismatch]:
    """List the operations whose answers differ; each one needs an answer on both sides."""
    return [
        Mismatch(case, index, op, want, have)
        for index, (op, want, have) in enumerate(zip(ops, expected, got, strict=True))
        if not same(want, have)
    ]


def same(left: Json, right: Json) -> bool:
    """Tell whether two JSON values are equal, the order of their keys included."""
    return json.dumps(left) == json.dumps(right)


def _show(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
