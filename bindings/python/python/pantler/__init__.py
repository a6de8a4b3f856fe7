"""Replacement policies over traces of references: the simulator of Pantler.

>>> import pantler
>>> [result] = pantler.simulate("loop:ids=100,requests=1000", "mru", 50)
>>> result["misses"]
550

* :func:`simulate` runs policies at sizes over a file, a generator or an array, in this process.
* :func:`sweep` does so over many traces, on any executor of ``concurrent.futures``.
* :func:`jobs` and :func:`run` are its two halves: :class:`Job` after job, and running them.
* :class:`Trace` is a trace in memory, for several calls.

What a program says about its own files is :mod:`pantler.hints`, :func:`open`, and for loaders
:mod:`pantler.torch` and :mod:`pantler.filesystem`.

A result carries the very bytes that ``pantler sim --json`` prints for the same run, wherever it
ran.
"""

from pantler._core import Trace, __version__
from pantler._names import Generator, Parameter, Policy, generators, policies
from pantler._result import Result
from pantler._simulate import SIZES, simulate
from pantler._sweep import ATTEMPTS, jobs, run, sweep
from pantler._worker import Job
from pantler.hints import open_file as open

__all__ = [
    "ATTEMPTS",
    "SIZES",
    "Generator",
    "Job",
    "Parameter",
    "Policy",
    "Result",
    "Trace",
    "__version__",
    "generators",
    "jobs",
    "open",
    "policies",
    "run",
    "simulate",
    "sweep",
]
