# What a guest tries. A line `result NAME VALUE` is a result; all else is there for people.
export PATH=/job:$PATH
cd /root || exit 1
mkdir -p /lib/modules
mount --bind /job/modules/lib/modules /lib/modules
modprobe -qa fuse loop

result() { echo "result $1 $2"; }
# Sectors read from the root disk so far.
sectors() { awk '$3 == "vda" { print $6 }' /proc/diskstats; }
# Runs a command and tells its exit status and the bytes read from the disk, with nothing cached
# before.
measure() {
    name=$1; shift
    sync; echo 3 > /proc/sys/vm/drop_caches
    before=$(sectors)
    "$@"
    result "$name.status" $?
    result "$name.bytes" $((($(sectors) - before) * 512))
}
# Everything of a run that is still there.
left() {
    result "$1.left" "$( (ls /sys/kernel/tracing/instances; grep -o 'pantler_[^/]*' /sys/kernel/tracing/kprobe_events | sort -u; find /sys/fs/cgroup -name 'pantler-*') | grep -c .)"
}

pantler doctor; result doctor.status $?
result watch "$(pantler doctor | grep -q 'by probes' && echo probes || echo tracepoints)"

# A file of 40 MB is read four times from start to end; 27 MB may stay.
head -c 40000000 /dev/urandom > data
for round in 1 2 3 4; do echo 'cat /root/data > /dev/null'; done > scans
echo 'exit 7' >> scans
measure alone systemd-run --quiet --scope -p MemoryMax=27000000 sh scans
measure steered pantler run --memory 27000000 --policy mru -- sh scans
left steered
measure scope systemd-run --quiet --scope -p MemoryMax=60000000 pantler run --memory 27000000 --policy mru -- sh scans
left scope
measure service systemd-run --quiet --pipe --wait -p MemoryHigh=60000000 /job/pantler run --memory 27000000 --policy mru -- sh /root/scans
left service

# A service that runs already, named by its unit: it stays where it is, and steering ends with it.
sync; echo 3 > /proc/sys/vm/drop_caches
systemd-run --quiet --unit reader sh -c 'sleep 10; sh /root/scans; sleep 2'
pantler attach --unit reader --memory 27000000 --policy mru --report /root/report
result attach.status $?
result attach.bytes "$(grep -o '"read_bytes":[0-9]*' /root/report | head -1 | cut -d: -f2)"
left attach
pantler attach --unit nobody --memory 27000000; result attach_nobody.status $?

# The command is killed, and the program; the next run removes what stayed.
pantler run --quiet --memory 27000000 -- sleep 5 & sleep 3; kill -9 $!; sleep 3
pantler run --quiet --memory 27000000 -- true; result killed.status $?
left killed
pantler run --quiet --memory 27000000 -- sh -c 'kill -9 $$'; result program_killed.status $?
left program_killed

# An ordinary user: a run is refused with a word, a mount of one's own works.
runuser -u nobody -- pantler run --memory 27000000 -- true; result user_run.status $?
mkdir -p /tmp/origin /tmp/mounted; cp data /tmp/origin/data; chown -R nobody /tmp/origin /tmp/mounted
chmod 666 /dev/fuse
runuser -u nobody -- env PANTLER_RUNTIME_DIR=/tmp/nobody sh -c '
    mkdir -p -m 700 /tmp/nobody && pantler mount /tmp/origin /tmp/mounted --cache 8M > /dev/null &&
    cmp /tmp/origin/data /tmp/mounted/data && pantler hint set-policy 0 mru && pantler umount /tmp/mounted'
result user_mount.status $?

# Suites of this tree, each where it was built.
if [ -e /job/suites ]; then
    place=$(cat /job/place)
    mkdir -p "$place"
    mount --bind /job/tree "$place"
    while read -r name executable; do
        cd "$place/${name%/*}" || exit 1
        env "CARGO_MANIFEST_DIR=$PWD" PANTLER_NO_SKIP=1 timeout -s KILL 600 "$executable" --test-threads=1 < /dev/null > /root/said 2>&1
        status=$?
        result "suite.$name.status" $status
        if [ $status != 0 ]; then
            cat /root/said
            result "suite.$name.failed" "$(sed -n 's/^test \([^ ]*\) .*FAILED$/\1/p' /root/said | tr '\n' ' ')"
        fi
        grep '^test result' /root/said
    done < /job/suites
fi
result end 0
