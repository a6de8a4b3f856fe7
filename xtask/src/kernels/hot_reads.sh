# What a read of a cached page costs in instructions, which the clock of this guest counts. A line
# `result NAME VALUE` is a result.
export PATH=/job:$PATH
cd /root || exit 1
mkdir -p /lib/modules none
mount --bind /job/modules/lib/modules /lib/modules
head -c 4096 /dev/urandom > page
cat > reads.py <<'END'
import os, time
file, count = os.open("page", os.O_RDONLY), 200_000
def read():
    for _ in range(count):
        os.pread(file, 4096, 0)
read()
start = time.monotonic_ns()
read()
print((time.monotonic_ns() - start) // count)
END
hot() {
    name=$1; shift
    result "hot.$name" "$(for round in 1 2 3; do "$@" python3 reads.py; done | sort -n | sed -n 2p)"
}
result() { echo "result $1 $2"; }

hot alone
# With a policy that is named hits are watched from the start.
hot tracepoints pantler run --quiet --memory 16M --policy mru --
# Without them references are watched by probes.
mount --bind none /sys/kernel/tracing/events/filemap/mm_filemap_get_pages
pantler doctor
result hot.watch "$(pantler doctor | grep -q 'by probes' && echo probes || echo tracepoints)"
hot probes pantler run --quiet --memory 16M --policy mru --
result end 0
