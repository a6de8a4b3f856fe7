"""Programs that give hints: without a connection, in a steered run, and on a mount."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

import pantler
from pantler import hints
from pantler.filesystem import PantlerFileSystem
from pantler.torch import ListedSampler

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FILE_BYTES = 32 << 20
PASSES = 5

Run = Callable[..., str]


@pytest.fixture
def run(program: Path) -> Iterator[tuple[Run, Path]]:
    """Runs ``pantler`` with words, and the folder of what it works on, which is on a disk."""
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        if os.environ.get("PANTLER_NO_SKIP") == "1":
            pytest.fail("steering and mounting need root and /dev/fuse")
        pytest.skip("steering and mounting need root and /dev/fuse")
    import tempfile

    with tempfile.TemporaryDirectory(dir=program.parent) as name:
        folder = Path(name)
        environment = {**os.environ, "PANTLER_RUNTIME_DIR": str(folder / "sockets")}
        environment.pop("SUDO_UID", None)

        def pantler(*words: str | Path) -> str:
            done = subprocess.run([program, *words], capture_output=True, text=True, env=environment)
            assert done.returncode == 0, done.stderr
            return done.stdout

        yield pantler, folder


def forgotten(path: Path, size: int) -> Path:
    """A file that is on the disk, and not in memory."""
    path.write_bytes(bytes(size))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def test_without_a_connection_calls_succeed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(10_000))
    with path.open("rb") as opened:
        for file in (path, str(path), opened, opened.fileno()):
            hints.set_priority(file, 3)
            assert hints.priority(file) == 0
            assert hints.will_read(file, (0, 4096), (8192, 9000)) == hints.List(0, 0, 0, 0, 0)
            assert hints.set_temporary_priority(file, 0, 10, -1) is None
            assert (hints.done_with(file, 0, 10), hints.explain(file)) == (None, None)
            assert hints.refused() == 0
    hints.set_policy("mru", 1)
    assert (hints.policy(1), hints.connections()) == ("lru", 0)
    hints.end_list()
    hints.clear()


@pytest.mark.parametrize(
    "call",
    [
        lambda file: hints.set_priority(file, 1024),
        lambda file: hints.set_policy("no-such-policy"),
        lambda file: hints.set_temporary_priority(file, 5, 5, 0),
        lambda file: hints.done_with(file, 5, 5),
        lambda file: hints.done_with(file, -1, 5),
        lambda file: hints.explain(-1),
        lambda file: hints.will_read(file, (9, 5)),
        lambda file: hints.set_priority(-1, 0),
        lambda file: hints.set_priority(999, 0),
        lambda file: hints.set_priority(file, 2**40),
        lambda file: hints.set_temporary_priority(file, -1, 5, 0),
    ],
)
def test_what_makes_no_sense_is_refused(call: Callable[[str], object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        call(__file__)


def test_a_file_is_opened_with_hints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"some bytes")
    said: list[tuple[object, ...]] = []
    monkeypatch.setattr(hints, "set_priority", lambda file, priority: said.append((file.fileno(), priority)))
    monkeypatch.setattr(hints, "will_read", lambda file, *ranges: said.append((file.fileno(), ranges)))
    with pantler.open(path, "rb", priority=2, reads=[(0, 4)]) as file:
        assert said == [(file.fileno(), 2), (file.fileno(), ((0, 4),))]
        assert file.read() == b"some bytes"
    said.clear()
    with pantler.open(path) as plain:
        assert (plain.read(), said) == ("some bytes", [])

    fsspec.register_implementation("pantler", PantlerFileSystem, clobber=True)
    with fsspec.open(f"pantler://{path}", priority=-1).open() as file:
        assert (file.read(), said) == (b"some bytes", [(file.fileno(), -1)])
    said.clear()
    files = fsspec.filesystem("pantler", priority=7)
    assert files.cat(str(path)) == b"some bytes"
    assert [priority for _, priority in said] == [7]
    with files.open(f"{path}.new", "wb") as file:
        file.write(b"written")
    assert len(said) == 1, "who writes says nothing"
    assert files.ls(str(tmp_path), detail=False) == [str(path), f"{path}.new"]


def test_a_refused_hint_closes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="expected"):
        pantler.open(path, "rb", priority=5000)
    assert len(os.listdir("/proc/self/fd")) == before


def test_ten_lines_save_a_third_of_the_reads(run: tuple[Run, Path]) -> None:
    command, folder = run
    words = [sys.executable, EXAMPLES / "cycles.py"]
    file, report = forgotten(folder / "file", FILE_BYTES), folder / "report"
    command("run", "--memory", "20M", "--report", report, "--", *words, file)
    steered = json.loads(report.read_text())["totals"]["read_bytes"]
    origin, point = folder / "origin", folder / "point"
    origin.mkdir()
    point.mkdir()
    file.rename(origin / "file")
    command("mount", origin, point, "--cache", "20M")
    try:
        environment = {**os.environ, "PANTLER_RUNTIME_DIR": str(folder / "sockets")}
        subprocess.run([*words, point / "file"], check=True, env=environment)
        mounted = json.loads(command("stat", point, "--json"))["totals"]["read_bytes"]
    finally:
        command("umount", point)
    print(f"Python: of {PASSES * FILE_BYTES} bytes it reads {steered} steered, {mounted} on a mount")
    for read in (steered, mounted):
        assert FILE_BYTES <= read < PASSES * FILE_BYTES * 0.7


def test_a_sampler_keeps_its_order_and_tells_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[object, ...]] = []

    def will_read(file: object, *ranges: tuple[int, int], follows: bool) -> None:
        told.append((file, *ranges, follows))

    monkeypatch.setattr(hints, "will_read", will_read)
    order = [7, 3, 8, 1, 5, 0, 9]
    places = {7: None, 3: "a", 8: ("b", 10, 20), 1: None, 5: ("b", 0, 5), 0: "d", 9: "d"}
    sampler = ListedSampler(order, places.__getitem__, ahead=4)
    assert len(sampler) == 7
    seen = []
    for index in sampler:
        seen.append(index)
        place = places[index]
        file = place[0] if isinstance(place, tuple) else place
        assert file is None or file in [call[0] for call in told], "told before it is read"
    assert seen == order
    assert told == [("a", False), ("b", (10, 20), True), ("b", (0, 5), True), ("d", True), ("d", True)]
    assert list(sampler) == order
    assert told[5:] == told[:5], "each epoch is a list of its own"


def test_an_epoch_that_is_left_or_refused_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    monkeypatch.setattr(hints, "end_list", lambda: ended.append(True))
    monkeypatch.setattr(hints, "will_read", lambda file, *ranges, follows: None)
    for index in ListedSampler([1, 2, 3], str):
        if index == 2:
            break
    assert ended == [True]
    assert list(ListedSampler([1, 2, 3], str)) == [1, 2, 3]
    assert ended == [True]

    def refused(file: object, *ranges: tuple[int, int], follows: bool) -> None:
        raise ValueError("expected something else")

    monkeypatch.setattr(hints, "will_read", refused)
    assert list(ListedSampler([1, 2, 3], str)) == [1, 2, 3]
    assert ended == [True]


def test_a_loader_s_order_is_followed(run: tuple[Run, Path]) -> None:
    command, folder = run
    files = [forgotten(folder / f"sample{number}", 256 << 10) for number in range(64)]
    script = folder / "epoch.py"
    script.write_text(
        "import random, sys, time\n"
        "from pantler import hints\n"
        "from pantler.torch import ListedSampler\n"
        "files = sys.argv[1:]\n"
        "order = random.Random(1).sample(files, len(files))\n"
        "for name in ListedSampler(order, lambda name: name, ahead=32):\n"
        "    with open(name, 'rb') as file:\n"
        "        file.read()\n"
        "    time.sleep(0.005)  # a step of training\n"
        "end = time.monotonic() + 5\n"
        "while hints.access_list().blocks_left and time.monotonic() < end:\n"
        "    time.sleep(0.01)\n"
        "print(hints.access_list().blocks_left, hints.connections())\n"
    )
    report = folder / "report"
    said = command("run", "--memory", "8M", "--report", report, "--", sys.executable, script, *files)
    assert said.split() == ["0", "1"]
    counters = json.loads(report.read_text())["body_counters"]
    # Blocks that the program did not ask for first.
    assert counters["listed"] >= 64, counters
