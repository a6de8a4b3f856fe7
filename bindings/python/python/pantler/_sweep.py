"""Sweeps as lists of jobs, on any executor.

::

    jobs()   traces x policies x sizes --> jobs
    run()    job --> executor --> worker reads the trace by its name, runs the job --> record
                                  worker lost: the same job again

A job's result depends on the job and the trace alone, so neither where nor how often it runs changes a byte.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

from pantler import _words, _worker
from pantler._core import Trace
from pantler._result import Result
from pantler._simulate import SIZES
from pantler._worker import Job

#: How often a job is tried when its worker is lost each time.
ATTEMPTS = 4

Name = str | os.PathLike[str]


def jobs(
    traces: Name | Iterable[Name],
    policies: str | Iterable[str] = "lru",
    sizes: int | str | Iterable[int | str] = SIZES,
    *,
    format: str | None = None,
    unit: str | None = None,
    columns: str | None = None,
    warm_up: float | None = None,
) -> list[Job]:
    """The runs of a sweep as jobs.

    Reads each trace, because shares and bytes are measured against it.

    Parameters
    ----------
    traces
        One or several names: files, or generators such as ``"zipf:ids=1000,requests=5000"``. A worker opens them by
        the same name.
    policies, sizes, format, unit, columns, warm_up
        As in :func:`simulate`.

    Returns
    -------
    list of Job
        By trace, then by policy, then by size, each as given.

    Raises
    ------
    FileNotFoundError, OSError, ValueError
        As in :func:`simulate`.
    TypeError
        A trace has no name.
    """
    names = [traces] if isinstance(traces, (str, os.PathLike)) else traces
    wanted = _words.policy_list(policies), _words.size_list(sizes)
    _words.options(warm_up)
    found = []
    for name in names:
        if not isinstance(name, (str, os.PathLike)):
            given = type(name).__name__
            raise TypeError(f"traces: {given}: expected names that workers can open; Trace.save makes a file of an array")
        trace = Trace.open(name, format=format, unit=unit, columns=columns)
        runs = trace.jobs(*wanted)
        found += [Job(trace.name, *run, warm_up, format, unit, columns) for run in runs]
    return found


def run(
    jobs: Iterable[Job],
    executor: Executor | Callable[[], Executor] | None = None,
    *,
    attempts: int = ATTEMPTS,
    threads: int | None = None,
) -> list[Result]:
    """Runs jobs, and gives their results in the same order.

    Parameters
    ----------
    jobs
        Those of :func:`jobs`.
    executor
        Where: an executor of ``concurrent.futures`` (threads, processes, or ``client.get_executor()`` of Dask
        distributed), which stays open; or what makes one, such as ``ProcessPoolExecutor`` itself, which is closed at
        the end. Without one, jobs run in this process, and those about one trace share what they can.
    attempts
        How often a job is tried whose worker is lost. A pool of processes breaks when one of them dies: pass what
        makes it, so that another one can be made.
    threads
        Without an executor: runs side by side; as many as processors without.

    Raises
    ------
    ValueError
        A job or its trace makes no sense.
    FileNotFoundError, OSError
        The trace is not there under its name, where the job runs.
    RuntimeError
        A job's workers were lost in each attempt, or the executor broke; the cause is attached.
    """
    wanted = list(jobs)
    if attempts < 1:
        raise ValueError(f"attempts {attempts}: expected at least 1")
    if executor is None:
        records: list[str] = []
        for (name, reading, warm_up), group in itertools.groupby(wanted, lambda job: (*job.source, job.warm_up)):
            runs = [(job.policy, job.size) for job in group]
            trace = Trace.open(name, **dict(reading))
            records += trace.run(runs, threads=threads, **_words.options(warm_up))
        return [Result(record) for record in records]
    return [Result(record) for record in _run_elsewhere(wanted, executor, attempts)]


def sweep(
    traces: Name | Iterable[Name],
    policies: str | Iterable[str] = "lru",
    sizes: int | str | Iterable[int | str] = SIZES,
    executor: Executor | Callable[[], Executor] | None = None,
    *,
    attempts: int = ATTEMPTS,
    threads: int | None = None,
    **options: Any,
) -> list[Result]:
    """Simulates each policy at each size over each trace, on an executor: :func:`run` of :func:`jobs`.

    Takes their parameters, gives the results by trace, then by policy, then by size, and raises what they raise.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> results = sweep("loop:ids=100,requests=1000", ["lru", "mru"], [50, 100], ThreadPoolExecutor)
    >>> [result["misses"] for result in results]
    [1000, 100, 550, 100]
    """
    return run(jobs(traces, policies, sizes, **options), executor, attempts=attempts, threads=threads)


def _run_elsewhere(
    jobs: list[Job], executor: Executor | Callable[[], Executor], attempts: int
) -> list[str]:
    records: dict[int, str] = {}
    lost: Exception | None = None
    for number in range(attempts):
        missing = [index for index in range(len(jobs)) if index not in records]
        if not missing:
            break
        with _opened(executor) as pool:
            lost = _round(pool, jobs, missing, number, records)
        if isinstance(lost, BrokenExecutor) and isinstance(executor, Executor):
            remedy = "pass what makes an executor, such as ProcessPoolExecutor itself, and a broken one is replaced"
            raise RuntimeError(f"executor {type(executor).__name__} broke: {lost}; {remedy}") from lost
    missing = [index for index in range(len(jobs)) if index not in records]
    if missing:
        text = f"{len(missing)} jobs lost their workers in {attempts} attempts: {lost!r}"
        raise RuntimeError(f"{text}; the first: {jobs[missing[0]]}") from lost
    return [records[index] for index in range(len(jobs))]


def _opened(executor: Executor | Callable[[], Executor]) -> contextlib.AbstractContextManager[Executor]:
    return contextlib.nullcontext(executor) if isinstance(executor, Executor) else executor()


def _round(
    pool: Executor, jobs: list[Job], missing: list[int], number: int, records: dict[int, str]
) -> Exception | None:
    """Tries what is missing once. Returns why a worker was lost, if one was; raises what is wrong with a job."""
    lost: Exception | None = None
    futures: dict[int, Future[str | Exception]] = {}
    try:
        for index in missing:
            try:
                futures[index] = pool.submit(_worker.attempt, jobs[index], number)
            except BrokenExecutor as error:
                lost = error
                break
        for index, future in futures.items():
            try:
                outcome = future.result()
            except Exception as error:  # Each executor has its own for workers that are gone.
                lost = error
                continue
            if isinstance(outcome, Exception):
                raise outcome
            records[index] = outcome
    finally:
        # After a mistake or Ctrl-C the rest is not waited for.
        for future in futures.values():
            future.cancel()
    return lost
