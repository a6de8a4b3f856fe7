"""Sweeps on executors: the same bytes, also when workers are killed in the middle."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import pantler
import pytest
from conftest import Command
from distributed import Client, LocalCluster

TRACES = ["zipf:ids=2000,requests=40000", "loop:ids=900,requests=20000"]
POLICIES = ["lru", "arc", "lirs", "s3-fifo"]
SIZES = [10, 100, 500, 1000]


@pytest.fixture(scope="module")
def jobs() -> list[pantler.Job]:
    return pantler.jobs(TRACES, POLICIES, SIZES)


@pytest.fixture(scope="module")
def expected(command: Command) -> list[str]:
    sizes = ",".join(map(str, SIZES))
    return command(*TRACES, "--policy", ",".join(POLICIES), "--size", sizes, "--json")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


class Killing(Executor):
    """Passes jobs on, and kills a worker when some are done."""

    def __init__(self, inner: Executor, kill: Callable[[], None], after: int) -> None:
        self.inner, self.kill, self.after = inner, kill, after
        self.done = self.submitted = 0
        self.done_at_kill: int | None = None
        self.lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1
        future = self.inner.submit(fn, *args, **kwargs)
        future.add_done_callback(self._one_more)
        return future

    def _one_more(self, _: Future[Any]) -> None:
        with self.lock:
            self.done += 1
            if self.done_at_kill is None and self.done >= self.after:
                self.done_at_kill = self.done
                self.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.inner.shutdown(wait=wait, cancel_futures=cancel_futures)


def lines(results: list[pantler.Result]) -> list[str]:
    return [result.line for result in results]


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


def test_threads(jobs: list[pantler.Job], expected: list[str]) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert lines(pantler.run(jobs, pool)) == expected


def test_processes(jobs: list[pantler.Job], expected: list[str]) -> None:
    assert lines(pantler.run(jobs, processes)) == expected


def test_forked_processes(jobs: list[pantler.Job], expected: list[str]) -> None:
    make = lambda: ProcessPoolExecutor(2, mp_context=get_context("fork"))  # noqa: E731
    assert lines(pantler.run(jobs, make)) == expected


def test_dask(client: Client, jobs: list[pantler.Job], expected: list[str]) -> None:
    assert lines(pantler.run(jobs, client.get_executor())) == expected


def test_a_killed_worker_of_dask(client: Client, expected: list[str]) -> None:
    before = set(client.run(os.getpid).values())
    victim = min(before)
    pool = Killing(client.get_executor(pure=False), lambda: os.kill(victim, signal.SIGKILL), after=3)
    assert lines(pantler.sweep(TRACES, POLICIES, SIZES, pool)) == expected
    assert pool.done_at_kill is not None and pool.done_at_kill < len(expected), "killed in the middle"
    client.wait_for_workers(2, timeout=30)
    after = set(client.run(os.getpid).values())
    assert victim not in after and len(after - before) == 1, "its place was taken"


def test_a_killed_process(jobs: list[pantler.Job], expected: list[str]) -> None:
    pools: list[Executor] = []

    def make() -> Executor:
        pool = processes()
        pools.append(pool)
        if len(pools) > 1:
            return pool
        return Killing(pool, lambda: os.kill(min(pool._processes), signal.SIGKILL), after=3)

    assert lines(pantler.run(jobs, make)) == expected
    assert len(pools) == 2, "the broken pool was replaced"


def test_a_broken_pool_that_nobody_can_replace(jobs: list[pantler.Job]) -> None:
    pool = processes()
    killing = Killing(pool, lambda: os.kill(min(pool._processes), signal.SIGKILL), after=3)
    with pool, pytest.raises(RuntimeError, match="broke.*ProcessPoolExecutor itself"):
        pantler.run(jobs, killing)


def test_workers_that_are_always_lost(jobs: list[pantler.Job]) -> None:
    class Lost(Executor):
        submitted = 0

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.submitted += 1
            future: Future[Any] = Future()
            future.set_exception(ConnectionError("gone"))
            return future

    lost = Lost()
    with pytest.raises(RuntimeError, match=r"32 jobs lost their workers in 2 attempts: ConnectionError\('gone'\)"):
        pantler.run(jobs, lost, attempts=2)
    assert lost.submitted == 2 * len(jobs)


def test_mistakes_come_back_from_workers(jobs: list[pantler.Job]) -> None:
    gone = jobs[0]._replace(trace="gone-")
    for make in (ThreadPoolExecutor, processes):
        with pytest.raises(FileNotFoundError, match="cannot open.*gone-"):
            pantler.run([*jobs[:3], gone], make)
