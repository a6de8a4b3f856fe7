"""Reads pages one by one in a control group of 16 MiB, several times, and puts the same reads to the
model of the kernel, with as many pages as were cached at the end on average.

    python3 reads.py PANTLER [fresh] [--small-folios]

as root, in a folder on a disk that reads ahead 128 KiB. With fresh the statistics of the group are
read every 200 reads, so that the kernel decides by none that are old; --small-folios is for a file
system that has no large ones.

A line for each trace: the order of eviction, pages read from the disk (median, least, most), pages
cached, pages that the model reads, and these as a part of the median."""

import array
import csv
import json
import os
import subprocess
import sys

TRACES = {
    "loop": "loop:ids=4500,requests=45000",
    "uniform": "uniform:ids=8192,requests=60000",
    "zipf0.8": "zipf:ids=8192,alpha=0.8,requests=80000,order=shuffled",
    "zipf1.0": "zipf:ids=8192,alpha=1.0,requests=80000,order=shuffled",
    "scans": "phases:(zipf:ids=1500,alpha=0.6,requests=6000,order=shuffled),(scan:ids=3000,first=1500),"
    "(zipf:ids=1500,alpha=0.6,requests=6000,order=shuffled),(scan:ids=3000,first=4500),repeat=5",
    "sets": "phases:(uniform:ids=3000,requests=10000),(uniform:ids=3000,requests=10000,first=1300),"
    "(uniform:ids=3000,requests=10000,first=2600),(uniform:ids=3000,requests=10000,first=3900),repeat=2",
    "streams": "mix:hot=(zipf:ids=2000,alpha=0.8,requests=20000,order=shuffled),"
    "one=(loop:ids=3000,requests=20000),other=(loop:ids=3200,requests=20000),turns=round",
}
PAGE = 4096
ROUNDS = 3
LIMIT = 16 << 20
UNIFIED = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
GROUPS = "/sys/fs/cgroup" if UNIFIED else "/sys/fs/cgroup/memory"


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def order():
    """What the kernel evicts by, as the model names it."""
    try:
        with open("/sys/kernel/mm/lru_gen/enabled") as file:
            enabled = int(file.read(), 16) & 1
    except FileNotFoundError:
        enabled = 0
    if not enabled:
        return "linux:demote=0"
    return "mglru:rework=1" if int(os.uname().release.split(".")[0]) >= 7 else "mglru"


def own_group():
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers == ("" if UNIFIED else "memory"):
                return GROUPS + path
    sys.exit("reads.py: no control group of memory")


def from_disk():
    with open("/proc/self/io") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("read_bytes")) // PAGE


def check_disk():
    disk = os.stat(".").st_dev
    with open(f"/sys/class/bdi/{os.major(disk)}:{os.minor(disk)}/read_ahead_kb") as file:
        ahead = file.read().strip()
    if ahead != "128":
        sys.exit(f"reads.py: the disk of this folder reads ahead {ahead} KiB; the model knows 128")


def statistics(group):
    with open(group + "/memory.stat") as file:
        return dict(line.split() for line in file)


def load(trace):
    """The descriptor and the offset of each read, over new files of which nothing is cached."""
    with open(trace) as file:
        reads = [(row.get("file") or "f", int(row["block"])) for row in csv.DictReader(file)]
    pages = {}
    for name, page in reads:
        pages[name] = max(pages.get(name, 0), page + 1)
    descriptors = {}
    for name, count in pages.items():
        with open("reads-" + name, "wb") as file:
            file.write(os.urandom(count * PAGE))
            file.flush()
            os.fsync(file.fileno())
        descriptors[name] = os.open("reads-" + name, os.O_RDONLY)
        os.posix_fadvise(descriptors[name], 0, 0, os.POSIX_FADV_DONTNEED)
    which = array.array("H", [descriptors[name] for name, _ in reads])
    return which, array.array("Q", [page * PAGE for _, page in reads]), descriptors


def read(trace, is_fresh):
    """Pages read from the disk, and cached at the end."""
    which, offsets, descriptors = load(trace)
    buffer, group, home = [bytearray(PAGE)], GROUPS + "/reads", own_group()
    if UNIFIED:
        write(GROUPS + "/cgroup.subtree_control", "+memory")
    os.makedirs(group, exist_ok=True)
    write(group + ("/memory.max" if UNIFIED else "/memory.limit_in_bytes"), str(LIMIT))
    # What is here already is not charged to the group.
    write(group + "/cgroup.procs", str(os.getpid()))
    before = from_disk()
    for at, (descriptor, offset) in enumerate(zip(which, offsets)):
        if is_fresh and at % 200 == 0:
            statistics(group)
        os.preadv(descriptor, buffer, offset)
    read = from_disk() - before
    write(home + "/cgroup.procs", str(os.getpid()))
    stat = statistics(group)
    for name, descriptor in descriptors.items():
        os.close(descriptor)
        os.unlink("reads-" + name)
    os.rmdir(group)
    return read, (int(stat["active_file"]) + int(stat["inactive_file"])) // PAGE


def main(pantler, *options):
    check_disk()
    kernel, is_fresh = order(), "fresh" in options
    options = [option for option in options if option != "fresh"]
    for name, specification in TRACES.items():
        subprocess.run([pantler, "trace", "generate", specification, "reads.csv"], check=True)
        rounds = [read("reads.csv", is_fresh) for _ in range(ROUNDS)]
        reads, cached = sorted(read for read, _ in rounds), sum(cached for _, cached in rounds) // ROUNDS
        median = reads[ROUNDS // 2]
        words = ["sim", "--body", "steer", "--kernel", kernel, "--size", str(cached), "--json", *options]
        said = subprocess.run([pantler, *words, "reads.csv"], check=True, capture_output=True, text=True).stdout
        model = json.loads(said)["kernel_device_reads"]
        os.unlink("reads.csv")
        real = f"{median} ({reads[0]} to {reads[-1]})"
        print(f"result reads.{name} {kernel} {real} {cached} {model} {model / median:.3f}", flush=True)


main(os.path.abspath(sys.argv[1]), *sys.argv[2:])
