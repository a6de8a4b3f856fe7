"""Where jobs run: here, in a thread of a pool, or in a process on another machine.

A worker keeps the last trace, because neighbouring jobs are mostly about the same one.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any

from pantler._core import Trace

#: How a job's trace is named and read: the fields of a line.
_SOURCE = ("format", "unit", "columns")


def source(line: str) -> tuple[str, dict[str, Any]]:
    """Which trace a job is about, and how it is read."""
    try:
        job = json.loads(line)
        return job["trace"], {name: job[name] for name in _SOURCE if name in job}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"job {line!r}: expected a line that pantler.jobs or pantler sim --jobs-out wrote") from error


class _Kept:
    """The trace that was used last, if its file did not change since."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: Any = None
        self._trace: Trace | None = None

    def open(self, line: str) -> Trace:
        """The trace of a job. It is read once: threads that want the same one wait for it."""
        name, reading = source(line)
        key = (name, sorted(reading.items()), _stamp(name))
        with self._lock:
            if self._trace is None or key != self._key:
                self._trace = None
                self._trace = Trace.open(name, **reading)
                self._key = key
            return self._trace


def _stamp(name: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


_kept = _Kept()


def _forget() -> None:
    # A thread that does not exist in a forked child may hold the lock there.
    global _kept
    _kept = _Kept()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def attempt(line: str, number: int) -> str | Exception:
    """Runs a job. Errors of the job come back as values, so that only lost workers raise.

    ``number`` tells attempts apart for executors that give equal calls one result.
    """
    try:
        [record] = _kept.open(line).run([line], threads=1)
        return record
    except (ValueError, TypeError, OSError) as error:
        return error
