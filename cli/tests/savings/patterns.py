"""How programs read that are too large to install: patterns.py PATTERN PATH..., see below."""

import mmap
import os
import random
import sys

PAGE = 4096
PIECE = bytearray(1 << 20)


def noise(folder, count, kibibytes):
    """Writes files that cannot be compressed."""
    draws = random.Random(folder)
    for name in range(1, int(count) + 1):
        with open(f"{folder}/{name}", "wb") as file:
            left = int(kibibytes) << 10
            while left > 0:
                file.write(draws.randbytes(min(left, len(PIECE))))
                left -= len(PIECE)


def texts(folder, count, kibibytes):
    """Writes files of text, a hundred in a folder."""
    draws = random.Random(94)
    words = [f"word{draws.randrange(1 << 20):x}" for _ in range(4096)]
    for name in range(int(count)):
        os.makedirs(f"{folder}/{name // 100}", exist_ok=True)
        with open(f"{folder}/{name // 100}/{name}.txt", "w") as file:
            length = 0
            while length < int(kibibytes) << 10:
                length += file.write(" ".join(draws.choices(words, k=12)) + "\n")


def sources(megabytes):
    """Writes headers of which each source includes most, and the sources."""
    draws = random.Random(94)
    os.makedirs("headers", exist_ok=True)
    os.makedirs("sources", exist_ok=True)
    comment = "/* " + "what this declares, and what it does not " * 24 + "*/\n"
    headers = int(megabytes) * 8
    for header in range(headers):
        with open(f"headers/h{header}.h", "w") as file:
            for line in range(120):
                file.write(f"{comment}int f{header}_{line}(int);\n")
    for source in range(24):
        with open(f"sources/s{source}.c", "w") as file:
            file.writelines(f'#include "h{h}.h"\n' for h in draws.sample(range(headers), headers * 3 // 4))
            file.writelines(f"int s{source}_{n}(int x) {{ return x * {n}; }}\n{comment}" for n in range(400))


def objects(megabytes):
    """Assembles objects, of 512 KiB each."""
    os.makedirs("objects", exist_ok=True)
    for name in range(int(megabytes) * 2):
        with open("object.s", "w") as file:
            file.write(f".globl s{name}\n.data\ns{name}:\n.fill 65536, 8, {name}\n")
        os.system(f"as object.s -o objects/{name}.o")


def read(path):
    """A file from start to end."""
    file = os.open(path, os.O_RDONLY)
    offset = 0
    while count := os.preadv(file, [PIECE], offset):
        offset += count
    os.close(file)


def cycles(path, count):
    """A file that is mapped: all pages in order, again and again."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        for _ in range(int(count)):
            sum(pages[::PAGE])


def epochs(folder, count):
    """All files of a folder, in another order each epoch."""
    names = sorted(os.listdir(folder))
    orders = random.Random(94)
    for _ in range(int(count)):
        orders.shuffle(names)
        for name in names:
            read(f"{folder}/{name}")


def merges(folder):
    """Segments of an index, of which searches read hot parts while merges read all of some once and
    write a larger one, as Lucene does."""
    names = sorted(os.listdir(folder))
    draws = random.Random(94)
    segments = {name: os.open(f"{folder}/{name}", os.O_RDONLY) for name in names}

    def search(count):
        for _ in range(count):
            name = draws.choice(list(segments))
            pages = os.fstat(segments[name]).st_size // PAGE
            # Dictionaries of terms are read for each search, and parts of the rest.
            os.pread(segments[name], PAGE, draws.randrange(pages // 4) * PAGE)
            os.pread(segments[name], PAGE, min(int(draws.paretovariate(0.6)), pages - 1) * PAGE)

    search(4000)
    for merge in range(len(names) // 4):
        merged = os.open(f"{folder}/merged.{merge}", os.O_CREAT | os.O_RDWR)
        sources = names[merge * 4 : merge * 4 + 4]
        for name in sources:
            file = os.open(f"{folder}/{name}", os.O_RDONLY)
            while piece := os.read(file, 1 << 16):
                os.write(merged, piece)
                search(8)
            os.close(file)
        os.fsync(merged)
        for name in sources:
            os.close(segments.pop(name))
        segments[f"merged.{merge}"] = merged
        search(4000)


def fill(folder, count):
    """A store of LMDB with values of a little less than 4 KiB."""
    import lmdb

    with lmdb.open(folder, map_size=1 << 32, sync=False) as store, store.begin(write=True) as writing:
        for key in range(int(count)):
            writing.put(b"%08d" % key, key.to_bytes(8, "little") * 480, append=True)


def look(folder, count, looks):
    """Looks into a store of LMDB, some keys far more often than others."""
    import lmdb

    keys = list(range(int(count)))
    draws = random.Random(94)
    draws.shuffle(keys)
    with lmdb.open(folder, map_size=1 << 32, readonly=True, lock=False, readahead=False) as store:
        for _ in range(int(looks)):
            with store.begin() as reading:
                key = keys[int(len(keys) * draws.random() ** 3)]
                assert reading.get(b"%08d" % key)


def vectors(graph, vectors, searches):
    """Neighbours in a graph that is mapped, and their vectors, as qdrant and other stores of vectors
    look for them."""
    draws = random.Random(94)
    with open(graph, "rb") as links, open(vectors, "rb") as values:
        links = mmap.mmap(links.fileno(), 0, access=mmap.ACCESS_READ)
        values = mmap.mmap(values.fileno(), 0, access=mmap.ACCESS_READ)
        links.madvise(mmap.MADV_RANDOM)
        values.madvise(mmap.MADV_RANDOM)
        for _ in range(int(searches)):
            for _ in range(8):
                _ = links[draws.randrange(len(links))], values[draws.randrange(len(values))]


def serve(path):
    """Answers from a file, at random, until there is a file `ended`; then once of each page."""
    file = os.open(path, os.O_RDONLY)
    pages = os.fstat(file).st_size // PAGE
    draws = random.Random(94)
    read(path)
    for page in draws.sample(range(pages), pages):
        os.pread(file, PAGE, page * PAGE)
    os.close(os.open("warm", os.O_CREAT | os.O_WRONLY))
    import time

    while not os.path.exists("ended"):
        os.pread(file, PAGE, draws.randrange(pages) * PAGE)
        time.sleep(0.0005)
    for page in range(pages):
        os.pread(file, PAGE, page * PAGE)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
