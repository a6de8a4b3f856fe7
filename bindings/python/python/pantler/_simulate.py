"""Simulating in this process."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy
import numpy.typing

from pantler import _words
from pantler._core import Trace
from pantler._result import Result

#: Sizes where none are given: the same as the command's.
SIZES = "1%,2%,5%,10%,20%,50%"


def simulate(
    trace: str | os.PathLike[str] | Trace | numpy.typing.NDArray[numpy.uint32 | numpy.uint64],
    policies: str | Iterable[str] = "lru",
    sizes: int | str | Iterable[int | str] = SIZES,
    *,
    format: str | None = None,
    unit: str | None = None,
    columns: str | None = None,
    warm_up: float | None = None,
    threads: int | None = None,
) -> list[Result]:
    """Simulates each policy at each size over one trace, in this process.

    Python's global lock is free meanwhile, and Ctrl-C ends it.

    Parameters
    ----------
    trace
        The name of a file, plain or compressed; a generator such as ``"zipf:ids=1000,requests=5000"``; a
        :class:`Trace`; or an array of ids, one for each reference: shape ``(references,)``, ``uint32`` or ``uint64``.
    policies
        One policy, such as ``"arc"`` or ``"2q:in=0.25,out=0.5"``, or several.
    sizes
        One or several: blocks (``1000``), bytes (``"64M"``), shares of the distinct blocks (``"10%"``), ranges
        (``"1%..50%"``, ``"A..B/COUNT"``), or a list of these.
    format, unit, columns
        How to read a file: as the options of ``pantler sim``.
    warm_up
        References at the start that are made and not counted: a number (``int``), or a share up to 1.0 (``float``).
    threads
        Runs side by side; as many as processors without.

    Returns
    -------
    list of Result
        By policy, then by size, each as given. Ratios are 0 to 1, sizes in blocks (or objects).

    Raises
    ------
    FileNotFoundError, OSError
        The file cannot be read.
    ValueError
        A value makes no sense, or the file is no trace; the message names value or line, and what was expected.
    TypeError
        The array has another type.
    """
    prepared = opened(trace, format=format, unit=unit, columns=columns)
    options = _words.options(warm_up)
    runs = prepared.jobs(_words.policy_list(policies), _words.size_list(sizes))
    return [Result(line) for line in prepared.run(runs, threads=threads, **options)]


def opened(trace: Any, **reading: Any) -> Trace:
    """The trace itself, read or made if it is not one yet."""
    if isinstance(trace, (str, os.PathLike)):
        return Trace.open(trace, **reading)
    given = [name for name, value in reading.items() if value]
    if given:
        raise ValueError(f"{given[0]} {reading[given[0]]!r}: this trace is in memory: only a file is read somehow")
    return trace if isinstance(trace, Trace) else Trace.from_array(trace)
