"""The package and the command give the same bytes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pantler
import pytest
from conftest import Command

POLICIES = ["lru", "fifo", "clock", "sieve", "s3-fifo", "arc", "2q:in=0.3,out=0.6", "lirs", "w-tinylfu", "min", "random"]
SIZES = "1%..50%,7"


def lines(results: list[pantler.Result]) -> list[str]:
    return [result.line for result in results]


def test_files(command: Command, numbers: Path) -> None:
    expected = command(numbers, "--policy", ",".join(POLICIES), "--size", SIZES, "--json")
    assert len(expected) == len(POLICIES) * 17
    assert lines(pantler.simulate(numbers, POLICIES, SIZES)) == expected
    assert lines(pantler.sweep(numbers, POLICIES, SIZES)) == expected
    assert lines(pantler.sweep(numbers, POLICIES, SIZES, ThreadPoolExecutor)) == expected


def test_every_policy(command: Command) -> None:
    trace = "zipf:ids=300,requests=3000"
    names = [policy.name for policy in pantler.policies()]
    expected = command(trace, "--policy", ",".join(names), "--size", "1,2,30", "--json")
    assert lines(pantler.simulate(trace, names, [1, 2, 30])) == expected


def test_every_option(command: Command, numbers: Path, owners: Path) -> None:
    table: list[tuple[Path, list[str], dict[str, object]]] = [
        (numbers, ["--warm-up", "10%"], {"warm_up": 0.1}),
        (numbers, ["--warm-up", "500"], {"warm_up": 500}),
        (numbers, ["--format", "lirs"], {"format": "lirs"}),
        (owners, ["--columns", "owner,file,block"], {"columns": "owner,file,block"}),
    ]
    for trace, words, options in table:
        common = [trace, "--policy", "lru,opt", "--size", "1,2", *words]
        assert lines(pantler.simulate(trace, ["lru", "opt"], [1, 2], **options)) == command(*common, "--json")
        for executor in (None, ThreadPoolExecutor):
            swept = pantler.sweep(trace, ["lru", "opt"], [1, 2], executor, **options)
            assert lines(swept) == command(*common, "--json")


def test_jobs_of_several_traces(command: Command, numbers: Path) -> None:
    jobs = pantler.jobs([numbers, "loop:ids=10,requests=100"], ["lru", "arc"], "10%,50%")
    words = [numbers, "loop:ids=10,requests=100", "--policy", "lru,arc", "--size", "10%,50%"]
    assert lines(pantler.run(jobs)) == command(*words, "--json")


@pytest.mark.parametrize("dtype", [numpy.uint32, numpy.uint64])
def test_arrays(tmp_path: Path, ids: numpy.ndarray, numbers: Path, dtype: type) -> None:
    narrow = (ids >> numpy.uint64(33)).astype(dtype)
    trace = pantler.Trace.from_array(narrow, name=str(numbers))
    expected = lines(pantler.simulate(numbers, POLICIES, SIZES))
    assert lines(pantler.simulate(trace, POLICIES, SIZES)) == expected
    # Not contiguous: every second number of twice as many.
    spread = numpy.repeat(narrow, 2)[::2]
    strided = pantler.Trace.from_array(spread, name=str(numbers))
    assert lines(pantler.simulate(strided, POLICIES, SIZES)) == expected


def test_what_is_saved_opens(tmp_path: Path, ids: numpy.ndarray) -> None:
    path = tmp_path / "saved.csv"
    trace = pantler.Trace.from_array(ids, name=str(path))
    trace.save(path)
    again = pantler.Trace.open(path)
    assert (again.requests, again.footprint, again.unit) == (len(ids), len(numpy.unique(ids)), "object")
    assert (again.ids() == trace.ids()).all()
    assert lines(pantler.sweep(path, "arc", "10%")) == lines(pantler.simulate(trace, "arc", "10%"))


def test_dense_ids(ids: numpy.ndarray) -> None:
    dense = pantler.Trace.from_array(ids).ids()
    assert dense.dtype == numpy.uint32
    # In order of first use.
    _, first, inverse = numpy.unique(ids, return_index=True, return_inverse=True)
    assert (dense == numpy.argsort(numpy.argsort(first))[inverse]).all()
