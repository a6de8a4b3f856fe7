"""What tests share: traces, and the command to compare with."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

#: The root of the project.
ROOT = Path(__file__).resolve().parents[3]

Command = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def no_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs on this machine besides gets no hints of a test."""
    monkeypatch.setenv("PANTLER_RUNTIME_DIR", str(tmp_path / "no-hosts"))


@pytest.fixture(scope="session")
def program() -> Path:
    """The command."""
    named = os.environ.get("PANTLER_COMMAND")
    built = [ROOT / "target" / profile / "pantler" for profile in ("release", "debug")]
    program = next((path for path in ([Path(named)] if named else built) if path.is_file()), None)
    if program is None:
        text = "no pantler command in PANTLER_COMMAND or target: cargo build --package pantler-cli"
        if os.environ.get("PANTLER_NO_SKIP") == "1":
            pytest.fail(text)
        pytest.skip(text)
    return program


@pytest.fixture(scope="session")
def command(program: Path) -> Command:
    """Runs ``pantler sim`` with words, and gives the lines it prints."""

    def sim(*words: str | Path) -> list[str]:
        done = subprocess.run([program, "sim", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return sim


@pytest.fixture
def ids() -> numpy.ndarray:
    """Twenty thousand references, some ids far more often than others."""
    drawn = numpy.random.default_rng(1).zipf(1.2, 20_000)
    return (drawn % 3_000).astype(numpy.uint64) << numpy.uint64(33)


@pytest.fixture
def numbers(tmp_path: Path, ids: numpy.ndarray) -> Path:
    """The same as a file, one id per line."""
    path = tmp_path / "numbers"
    numpy.savetxt(path, ids, fmt="%d")
    return path


@pytest.fixture
def owners(tmp_path: Path) -> Path:
    """A trace of two owners, with files and blocks."""
    path = tmp_path / "owners.csv"
    path.write_text("owner,file,block\n" + "a,x,1\nb,y,1\na,x,2\na,x,1\nb,y,1\na,x,2\n" * 50)
    return path
