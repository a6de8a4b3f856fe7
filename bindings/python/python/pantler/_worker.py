"""Where jobs run: here, in a thread of a pool, or in a process on another machine.

A worker keeps the last trace, because neighbouring jobs are mostly about the same one.
"""

from __future__ import annotations

import os
import threading
from typing import Any, NamedTuple

from pantler import _words
from pantler._core import Trace


class Job(NamedTuple):
    """One run of a sweep: a policy at a size over a trace, with the words of :func:`pantler.simulate`."""

    trace: str
    policy: str
    size: int
    warm_up: float | None = None
    format: str | None = None
    unit: str | None = None
    columns: str | None = None

    @property
    def source(self) -> tuple[str, tuple[tuple[str, str | None], ...]]:
        """Which trace it is about, and how that is read."""
        return self.trace, (("format", self.format), ("unit", self.unit), ("columns", self.columns))


class _Kept:
    """The trace that was used last, if its file did not change since."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: Any = None
        self._trace: Trace | None = None

    def open(self, job: Job) -> Trace:
        """The trace of a job. It is read once: threads that want the same one wait for it."""
        name, reading = job.source
        key = (name, reading, _stamp(name))
        with self._lock:
            if self._trace is None or key != self._key:
                self._trace = None
                self._trace = Trace.open(name, **dict(reading))
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


def attempt(job: Job, number: int) -> str | Exception:
    """Runs a job. Errors of the job come back as values, so that only lost workers raise.

    ``number`` tells attempts apart for executors that give equal calls one result.
    """
    try:
        runs = [(job.policy, job.size)]
        [record] = _kept.open(job).run(runs, threads=1, **_words.options(job.warm_up))
        return record
    except (ValueError, TypeError, OSError) as error:
        return error
