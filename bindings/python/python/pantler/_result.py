"""The result of one run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


class Result(Mapping[str, Any]):
    """The result of one run: a mapping of the fields that ``docs/JSON.md`` lists under ``sim``.

    ``line`` is the JSON text itself, without the end of the line: byte for byte what ``pantler sim
    --json`` prints for the same run. Results are equal when their lines are.
    """

    __slots__ = ("_fields", "line")

    line: str

    def __init__(self, line: str) -> None:
        self.line = line
        self._fields: dict[str, Any] = json.loads(line)

    def __getitem__(self, field: str) -> Any:
        return self._fields[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        return self.line == other.line if isinstance(other, Result) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.line)

    def __reduce__(self) -> tuple[type[Result], tuple[str]]:
        return Result, (self.line,)

    def __repr__(self) -> str:
        return f"Result({self.line!r})"
