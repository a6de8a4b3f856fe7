# The first process of a guest whose pages have 64 KiB: it makes what systemd would, runs suites and
# ends the guest. A line `result NAME VALUE` is a result; all else is there for people.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tracefs tracefs /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ln -s /proc/self/fd /dev/fd
ln -s /proc/self/fd/0 /dev/stdin; ln -s /proc/self/fd/1 /dev/stdout; ln -s /proc/self/fd/2 /dev/stderr
chmod 666 /dev/fuse
# Programs are in a group below the root, as on any machine, and what the root has, those below get.
echo '+io +memory +pids' > /sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/job
echo $$ > /sys/fs/cgroup/job/cgroup.procs
ip link set lo up
echo guest > /proc/sys/kernel/hostname

result() { echo "result $1 $2"; }
result kernel "$(uname -r)"
result page_bytes "$(getconf PAGESIZE)"

place=$(cat /job/place)
mkdir -p "$place"
mount --bind /job/tree "$place"
while read -r name executable; do
    cd "$place/${name%/*}" || exit 1
    # The 26 million traces of length 8 take longer here than all else together; those of length 6
    # and 7 are taken.
    case $name in core/steward/twin) skip='--skip all_traces_up_to_length_8' ;; *) skip= ;; esac
    start=$(date +%s)
    env "CARGO_MANIFEST_DIR=$PWD" PANTLER_NO_SKIP=1 timeout -s KILL 1800 "$executable" --test-threads=1 $skip < /dev/null > /run/said 2>&1
    status=$?
    result "suite.$name.status" $status
    result "suite.$name.seconds" $(($(date +%s) - start))
    result "suite.$name.tests" "$(sed -n 's/^test result: [a-zA-Z]*\. \(.*\); finished.*/\1/p' /run/said | tail -1)"
    if [ $status != 0 ]; then
        cat /run/said
        result "suite.$name.failed" "$(sed -n 's/^test \([^ ]*\) .*FAILED$/\1/p' /run/said | tr '\n' ' ')"
    fi
done < /job/suites
result end 0
sync
echo o > /proc/sysrq-trigger
sleep 60
