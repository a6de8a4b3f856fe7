"""What the rows of `make rivals` read with: reader.py epochs|read|map|backup|serve|aside ..."""

import os
import random
import sys
import time

# Of linux/fs.h, since Linux 6.14: what was read leaves the page cache at once.
RWF_DONTCACHE = 0x80
FLAGS = RWF_DONTCACHE if os.environ.get("DONTCACHE") else 0
PIECE = bytearray(1 << 20)
EPOCHS = 10
# Of one read of the service, and how long it rests after each.
SERVED_BYTES = 16384
REST_S = 0.0002
SERVED = 10_000
# A read that takes longer was not served from memory, or not at once.
SLOW_NS = 200_000


def read(path):
    """Reads a file from start to end."""
    file = os.open(path, os.O_RDONLY)
    offset = 0
    while count := os.preadv(file, [PIECE], offset, FLAGS):
        offset += count
    os.close(file)


def epochs(folder, count=EPOCHS, read_file=read):
    """Reads all files of a folder, each epoch in another order."""
    names = sorted(os.listdir(folder), key=int)
    orders = random.Random(94)
    for _ in range(int(count)):
        orders.shuffle(names)
        for name in names:
            read_file(f"{folder}/{name}")


class Aside:
    """A server that is asked for a file first, and given what it does not have."""

    def __init__(self, port):
        import socket  # As above.

        self.socket = socket.create_connection(("127.0.0.1", int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers = self.socket.makefile("rb")

    def read(self, path):
        """A file, from the server or else from the disk, without a place in the page cache."""
        if self.get(path):
            return
        file = os.open(path, os.O_RDONLY)
        data = os.read(file, os.fstat(file).st_size)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
        self.put(path, data)


class Redis(Aside):
    """redis-server."""

    def get(self, path):
        """Whether it has the file."""
        self.socket.sendall(f"*2\r\n$3\r\nGET\r\n${len(path)}\r\n{path}\r\n".encode())
        count = int(self.answers.readline()[1:])
        return count >= 0 and len(self.answers.read(count + 2)) == count + 2

    def put(self, path, data):
        """Gives it the file."""
        head = f"*3\r\n$3\r\nSET\r\n${len(path)}\r\n{path}\r\n${len(data)}\r\n"
        self.socket.sendall(head.encode() + data + b"\r\n")
        if not self.answers.readline().startswith(b"+"):
            sys.exit("redis-server did not take a file")


class Memcached(Aside):
    """memcached."""

    def get(self, path):
        """Whether it has the file."""
        self.socket.sendall(f"get {path}\r\n".encode())
        words = self.answers.readline().split()
        if words == [b"END"]:
            return False
        count = int(words[3])
        return len(self.answers.read(count + 2)) == count + 2 and self.answers.readline() == b"END\r\n"

    def put(self, path, data):
        """Gives it the file."""
        self.socket.sendall(f"set {path} 0 0 {len(data)}\r\n".encode() + data + b"\r\n")
        if self.answers.readline() != b"STORED\r\n":
            sys.exit("memcached did not take a file")


def aside(kind, port, folder, count=EPOCHS):
    """The same as `epochs`, with a server that is asked first."""
    server = {"redis": Redis, "memcached": Memcached}[kind](port)
    epochs(folder, count, server.read)


def map_file(path):
    """Copies a file that is mapped, piece by piece."""
    import mmap  # Guests have no such module.

    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for offset in range(0, len(mapped), len(PIECE)):
            _ = mapped[offset : offset + len(PIECE)]


def backup(*paths):
    """Reads everything below some paths once."""
    for path in paths:
        if os.path.isfile(path):
            read(path)
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                if not os.path.islink(f"{folder}/{name}"):
                    read(f"{folder}/{name}")


def serve(path, said):
    """Answers random reads of a file that is in memory at first, and tells how many were slow."""
    file = os.open(path, os.O_RDONLY)
    piece = memoryview(PIECE)[:SERVED_BYTES]
    draws = random.Random(94)
    offsets = list(range(0, os.fstat(file).st_size - SERVED_BYTES + 1, SERVED_BYTES))
    read(path)
    for offset in draws.sample(offsets, len(offsets)):
        os.preadv(file, [piece], offset)
    os.close(os.open(f"{said}.warm", os.O_CREAT | os.O_WRONLY))
    took = []
    for _ in range(SERVED):
        offset = draws.choice(offsets)
        start = time.perf_counter_ns()
        os.preadv(file, [piece], offset)
        took.append(time.perf_counter_ns() - start)
        time.sleep(REST_S)
    took.sort()
    with open(said, "w") as figures:
        slow = sum(each > SLOW_NS for each in took)
        figures.write(f"{slow} {took[len(took) * 99 // 100] / 1000:.0f}")


if __name__ == "__main__":
    what = {"epochs": epochs, "read": read, "map": map_file, "backup": backup, "serve": serve, "aside": aside}
    what[sys.argv[1]](*sys.argv[2:])
