"""Bad input: the exception, the value, the remedy."""

from __future__ import annotations

import gzip
import os
import pickle
import signal
import threading
import time
from pathlib import Path

import numpy
import pantler
import pytest

LOOP = "loop:ids=10,requests=100"


@pytest.mark.parametrize(
    ("policies", "sizes", "options", "message"),
    [
        ("clok", 5, {}, 'unknown policy "clok", did you mean "clock"?'),
        ("banana", 5, {}, 'unknown policy "banana": pantler.policies() lists all'),
        ("lru,fifo", 5, {}, "lru,fifo"),
        ([], 5, {}, "policies []: expected at least one"),
        ("lru", [], {}, "sizes []: expected at least one"),
        ("lru", 0, {}, 'size "0": expected blocks'),
        ("lru", "5x", {}, 'size "5x": expected blocks'),
        ("lru", "64M", {}, "size 64M: the trace gives keys and not how many bytes"),
        ("lru", 5, {"warm_up": -1}, "warm_up -1: expected references"),
        ("lru", 5, {"warm_up": 1.5}, "warm_up 1.5: expected a share"),
        ("lru", 5, {"threads": 0}, "threads 0: expected at least 1"),
    ],
)
def test_words(policies: object, sizes: object, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        pantler.simulate(LOOP, policies, sizes, **options)  # type: ignore[arg-type]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "kind", "message"),
    [
        (numpy.zeros(3), TypeError, "ids: an array of float64: expected uint32 or uint64"),
        (numpy.zeros(3, dtype=numpy.int64), TypeError, "ids: an array of int64"),
        (numpy.zeros(3, dtype=">u4"), TypeError, "native order"),
        ([1, 2], TypeError, "ids: list: expected a NumPy array"),
        (numpy.zeros((2, 2), dtype=numpy.uint32), ValueError, "ids: an array of 2 dimensions: expected 1"),
        (numpy.zeros(0, dtype=numpy.uint32), ValueError, "ids: 0 references: expected 1 to"),
    ],
)
def test_arrays(ids: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        pantler.simulate(ids, "lru", 5)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_files(tmp_path: Path) -> None:
    gone = tmp_path / "gone.lis"
    with pytest.raises(FileNotFoundError, match="expected a file, or a generator") as caught:
        pantler.simulate(gone)
    assert caught.value.filename == str(gone)
    with pytest.raises(FileNotFoundError, match="make its folder first"):
        pantler.Trace.open(LOOP).save(tmp_path / "no" / "folder")
    garbage = tmp_path / "garbage"
    garbage.write_text("1\n2\nx\n")
    with pytest.raises(ValueError, match='line 3: "x": expected'):
        pantler.simulate(garbage, format="lirs")
    with pytest.raises(ValueError, match='format "lis"'):
        pantler.simulate(garbage, format="lis")
    with pytest.raises(ValueError, match='unit "page": expected object, or block:BYTES'):
        pantler.simulate(garbage, unit="page")
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"1\n2\n" * 1000)[:-12])
    with pytest.raises(ValueError, match="cannot decompress"):
        pantler.simulate(cut, format="lirs")
    with pytest.raises(ValueError, match="requests"):
        pantler.simulate("zipf:ids=10")
    with pytest.raises(ValueError, match="format 'csv': this trace is in memory"):
        pantler.simulate(numpy.zeros(3, dtype=numpy.uint32), format="csv")


def test_jobs() -> None:
    [job] = pantler.jobs(LOOP, "lru", 5)
    assert job == pantler.Job(LOOP, "lru", 5)
    with pytest.raises(ValueError, match='unknown policy "lrx"'):
        pantler.run([job._replace(policy="lrx")])
    with pytest.raises(ValueError, match="zero"):
        pantler.run([job._replace(size=0)])
    with pytest.raises(TypeError, match="Trace.save makes a file"):
        pantler.jobs([numpy.zeros(3, dtype=numpy.uint32)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="attempts 0"):
        pantler.run([job], attempts=0)
    assert pantler.run([]) == []


def test_results_are_mappings() -> None:
    [result] = pantler.simulate(LOOP, "mru", 5)
    assert (result["misses"], dict(result)["policy"], len(result)) == (60, "mru", 11)
    assert pickle.loads(pickle.dumps(result)) == result
    with pytest.raises(KeyError):
        result["colour"]


def test_interrupt() -> None:
    """Ctrl-C ends a simulation of many seconds soon."""
    trace = pantler.Trace.open("loop:ids=1000,requests=5000000")
    jobs = trace.jobs(["lirs", "arc", "lrfu"], "1..900/300")
    # Shells let what they start in the background ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    start = time.monotonic()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            trace.run(jobs)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - start < 20
    # What was stopped holds nothing any more.
    assert len(trace.run(trace.jobs(["lru"], "5,6"))) == 2


def test_python_runs_meanwhile() -> None:
    trace = pantler.Trace.open("loop:ids=1000,requests=2000000")
    thread = threading.Thread(target=trace.run, args=(trace.jobs(["arc"], "500"),))
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
    assert turns > 1000, "the global lock is free while a policy runs"
