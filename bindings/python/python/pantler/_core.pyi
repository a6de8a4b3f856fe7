"""What of the package is Rust."""

import os
from typing import final

import numpy
import numpy.typing

__version__: str

@final
class Hints:
    """The voice of this process; :mod:`pantler.hints` has it for people."""

    def __init__(self) -> None: ...
    def connections(self) -> int: ...
    def set_priority(self, fd: int, priority: int) -> None: ...
    def priority(self, fd: int) -> int: ...
    def set_policy(self, priority: int, policy: str) -> None: ...
    def policy(self, priority: int) -> str: ...
    def set_temporary_priority(self, fd: int, first: int, end: int, priority: int) -> None: ...
    def done_with(self, fd: int, first: int, end: int) -> None: ...
    def refused(self) -> int: ...
    def explain(self, fd: int) -> tuple[int, int, int, str, list[str]] | None: ...
    def list(self, fd: int, ranges: list[tuple[int, int]], follows: bool) -> tuple[int, int, int, int, int]: ...
    def get_list(self) -> tuple[int, int, int, int, int]: ...
    def end_list(self) -> None: ...
    def clear(self) -> None: ...

@final
class Trace:
    """A trace in memory, ready for jobs. Several threads may use one.

    Made by :meth:`open` and :meth:`from_array`.
    """

    @staticmethod
    def open(
        trace: str | os.PathLike[str],
        *,
        format: str | None = None,
        unit: str | None = None,
        columns: str | None = None,
    ) -> Trace:
        """Reads a file, or makes what a generator's text says.

        ``unit`` is ``"object"`` or ``"block:BYTES"``, ``columns`` what the columns of a CSV mean; without ``format`` it
        is guessed.

        Raises FileNotFoundError, OSError; ValueError for a line or an option that makes no sense.
        """

    @staticmethod
    def from_array(
        ids: numpy.typing.NDArray[numpy.uint32 | numpy.uint64], *, name: str = "array"
    ) -> Trace:
        """Makes a trace of an array of ids, one for each reference; ``name`` is what results say.

        The shape is ``(references,)``, from 1 to 2³² − 2 of them. The array is copied.

        Raises TypeError for another type, ValueError for another shape.
        """

    @property
    def name(self) -> str:
        """The name that results carry: of the file, or the generator's text."""
    @property
    def requests(self) -> int:
        """References."""
    @property
    def footprint(self) -> int:
        """Distinct blocks or objects."""
    @property
    def unit(self) -> str:
        """What one reference is: ``"object"`` or ``"block:BYTES"``."""
    @property
    def note(self) -> str | None:
        """What a person should know: a guess of the format that could be wrong."""

    def ids(self) -> numpy.typing.NDArray[numpy.uint32]:
        """The references in dense ids, numbered in order of first use: a copy of shape ``(requests,)``."""
    def jobs(self, policies: list[str], sizes: str) -> list[tuple[str, int]]:
        """Policies at sizes, by policy, then by size; ``sizes`` in the words of the command line.

        Raises ValueError for a word that makes no sense.
        """
    def run(
        self,
        jobs: list[tuple[str, int]],
        *,
        warm_up_count: int | None = None,
        warm_up_share: float | None = None,
        threads: int | None = None,
    ) -> list[str]:
        """Runs policies at sizes, and gives their records as lines of JSON, in the same order.

        Raises ValueError for a word that makes no sense.
        """
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace as CSV: a file that :meth:`open` and ``pantler sim`` read.

        Raises OSError.
        """

def policies() -> list[tuple[str, str, list[tuple[str, str, str, str]]]]: ...
def generators() -> list[tuple[str, str, str]]: ...
