"""What a program says about the blocks of its files, to the runs and mounts that hold it.

>>> from pantler import hints
>>> hints.set_policy("mru")  # what is read in cycles
>>> hints.connections()  # no run, no mount: calls succeed, and have no effect
0

A file is a path, a descriptor, or anything with a ``fileno()``. Offsets are in bytes; an end is the
byte after the last. What makes no sense is a ``ValueError``, what a user may not do a
``PermissionError``, anything else that fails an ``OSError``. The calls may come from any thread; a
child that was forked speaks for itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple, Protocol

from pantler._core import Hints


class HasDescriptor(Protocol):
    """An open file."""

    def fileno(self) -> int: ...


File = str | os.PathLike[str] | int | HasDescriptor

_HINTS = Hints()


class List(NamedTuple):
    """How far an access list is; all 0 where there is none."""

    #: Files or ranges that are not behind.
    ranges: int
    #: Blocks that were read, or passed over.
    blocks_done: int
    blocks_left: int
    in_flight: int
    #: Ranges of this call that lie beyond the end of the file.
    trimmed: int


class Explanation(NamedTuple):
    """What is cached of a file, and why."""

    #: Of the file, rounded up to a block.
    bytes: int
    #: Of the blocks that are cached.
    cached_bytes: int
    priority: int
    #: The policy of that priority.
    policy: str
    #: The last decisions about its blocks, oldest first.
    decisions: list[str]


@contextmanager
def _descriptor(file: File) -> Iterator[int]:
    if isinstance(file, int):
        yield file
    elif isinstance(file, (str, os.PathLike)):
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            yield opened
        finally:
            os.close(opened)
    else:
        yield file.fileno()


def connections() -> int:
    """Runs and mounts that take hints of this process; with none, calls have no effect."""
    return _HINTS.connections()


def set_priority(file: File, priority: int) -> None:
    """Blocks of a file leave after those of files of lower priority; 0 is the default."""
    with _descriptor(file) as descriptor:
        _HINTS.set_priority(descriptor, priority)


def priority(file: File) -> int:
    """The priority of a file."""
    with _descriptor(file) as descriptor:
        return _HINTS.priority(descriptor)


def set_policy(policy: str, priority: int = 0) -> None:
    """The replacement policy among blocks of one priority."""
    _HINTS.set_policy(priority, policy)


def policy(priority: int = 0) -> str:
    """The policy of a priority."""
    return _HINTS.policy(priority)


def set_temporary_priority(file: File, first: int, end: int, priority: int) -> None:
    """Gives the cached blocks of these bytes a priority until each is used again or leaves."""
    with _descriptor(file) as descriptor:
        _HINTS.set_temporary_priority(descriptor, first, end, priority)


def done_with(file: File, first: int, end: int) -> None:
    """This process is done with these bytes: the cached blocks that end there leave first.

    Each stays if it is used again before.
    """
    with _descriptor(file) as descriptor:
        _HINTS.done_with(descriptor, first, end)


def refused() -> int:
    """How many hints were refused after their calls had returned, once all given are seen."""
    return _HINTS.refused()


def explain(file: File) -> Explanation | None:
    """What is cached of a file, and why; ``None`` without a connection."""
    with _descriptor(file) as descriptor:
        told = _HINTS.explain(descriptor)
    return None if told is None else Explanation(*told)


def will_read(file: File, *ranges: tuple[int, int], follows: bool = False) -> List:
    """These ranges of bytes of a file, without any the whole file, are read next, in this order.

    This is the access list of this process; with ``follows`` they come after those on it.
    """
    with _descriptor(file) as descriptor:
        return List(*_HINTS.list(descriptor, list(ranges), follows))


def open_file(
    file: str | os.PathLike[str],
    mode: str = "r",
    *,
    priority: int | None = None,
    reads: Iterable[tuple[int, int]] | None = None,
    **options: Any,
) -> IO[Any]:
    """As :func:`open`, and says how the file will be used; ``pantler.open`` is this.

    ``priority`` is as in :func:`set_priority`. ``reads`` are the ranges of bytes that will be read,
    in order; an empty list is the whole file, and they replace the access list that there was. A hint
    that is refused closes the file again.
    """
    opened = open(file, mode, **options)
    try:
        if priority is not None:
            set_priority(opened, priority)
        if reads is not None:
            will_read(opened, *reads)
    except BaseException:
        opened.close()
        raise
    return opened


def access_list() -> List:
    """How far the access list is."""
    return List(*_HINTS.get_list())


def end_list() -> None:
    """The access list ends here. What was fetched for it stays."""
    _HINTS.end_list()


def clear() -> None:
    """Takes back all that was hinted."""
    _HINTS.clear()
