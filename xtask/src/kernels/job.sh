# What a guest tries. A line `result NAME VALUE` is a result; all else is there for people.
cd /root || exit 1
mkdir -p /lib/modules
mount --bind /job/modules/lib/modules /lib/modules
modprobe -qa fuse loop nfs nfsd

cp /job/pantler /usr/local/bin/

result() { echo "result $1 $2"; }
# Sectors read so far from the disk of the data.
sectors() { awk '$3 == "vdb" { print $6 }' /proc/diskstats; }
# Runs a command and tells its exit status and the bytes of data read from the disk, with nothing
# cached before.
measure() {
    name=$1; shift
    sync; echo 3 > /proc/sys/vm/drop_caches
    before=$(sectors)
    "$@"
    result "$name.status" $?
    result "$name.bytes" $((($(sectors) - before) * 512))
}
# Everything of a run that is still there, by name for people.
left() {
    (
        ls /sys/kernel/tracing/instances
        grep -o 'pantler_[^/]*' /sys/kernel/tracing/kprobe_events | sort -u
        find /sys/fs/cgroup -name 'pantler-*'
    ) > left
    cat left
    result "$1.left" "$(grep -c . left)"
}

pantler doctor; result doctor.status $?
result watch "$(pantler doctor | grep -q 'by probes' && echo probes || echo tracepoints)"

# A database of cscope is searched six times from start to end; two thirds of it may stay.
size=$(stat -c %s /job/data/cscope.out)
limit=$((size * 2 / 3 / 4096 * 4096))
result database.bytes "$size"
cat > queries <<'END'
cd /job/data
for symbol in kmalloc mutex_lock d_path list_add_tail get_page put_user; do
    cscope -d -c -k -L0 $symbol
done | cksum > /root/answer
exit 7
END
# The answers, and whether those that steering got are the same.
answers() { [ -e first ] || cp answer first; cmp -s answer first; result "$1.answers" $?; }

measure alone systemd-run --quiet --scope -p MemoryMax=$limit sh queries
answers alone
measure steered pantler run --memory $limit --policy mru -- sh queries
answers steered
left steered
measure scope systemd-run --quiet --scope -p MemoryMax=$limit pantler run --memory $limit --total $limit --policy mru -- sh queries
answers scope
left scope
if [ ! -e /job/quick ]; then
measure service systemd-run --quiet --pipe --wait -p MemoryHigh=$limit pantler run --memory $limit --policy mru -- sh /root/queries
answers service
left service

# A service that runs already, named by its unit: it stays where it is, and steering ends with it.
sync; echo 3 > /proc/sys/vm/drop_caches
systemd-run --quiet --unit reader sh -c 'sleep 10; sh /root/queries; sleep 2'
pantler attach --unit reader --memory $limit --policy mru --report /root/report
result attach.status $?
result attach.bytes "$(grep -o '"read_bytes":[0-9]*' /root/report | head -1 | cut -d: -f2)"
left attach
pantler attach --unit nobody --memory 16M; result attach_nobody.status $?
fi

# The command is killed, and the program; the next run removes what stayed, once the program that
# went on alone has ended.
pantler run --quiet --memory 16M -- sh -c 'echo $$ > begun; mv begun program; exec sleep 5' & command=$!
until [ -e program ]; do sleep 0.1; done
kill -9 $command
while [ -e "/proc/$(cat program)" ]; do sleep 0.1; done
pantler run --quiet --memory 16M -- true; result killed.status $?
left killed
pantler run --quiet --memory 16M -- sh -c 'kill -9 $$'; result program_killed.status $?
left program_killed

# Where users start it from: a login shell, a slice with a limit above, a group that was delegated
# to a user, and a container. There it is refused beside other processes in one group, and where ids
# of processes are its own.
ends() { name=$1; shift; "$@"; result "$name.status" $?; left "$name"; }
echo 'exec pantler run --quiet --memory 16M "$@" -- sh -c "cat /job/data/cscope.out > /dev/null; exit 7"' > run
chmod 755 /root run
ends login runuser -l root -c 'sh /root/run'
systemctl set-property --runtime above.slice MemoryHigh=64M
ends parent systemd-run --quiet --scope --slice above.slice sh run
ends delegated systemd-run --quiet --pipe --wait -p User=nobody -p Delegate=yes sh /root/run --best-effort
inside='umount /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec sh /root/run'
ends container systemd-run --quiet --scope unshare --cgroup --mount sh -c "$inside"
ends container_crowd unshare --cgroup --mount sh -c "$inside"
ends container_ids unshare --cgroup --pid --mount --fork --mount-proc sh -c "$inside"

# An ordinary user: a run is refused with a word, a mount of one's own works.
runuser -u nobody -- pantler run --memory 16M -- true; result user_run.status $?
mkdir -p /tmp/origin /tmp/mounted; head -c 10000000 /dev/urandom > /tmp/origin/data; chown -R nobody /tmp/origin /tmp/mounted
chmod 666 /dev/fuse
runuser -u nobody -- env PANTLER_RUNTIME_DIR=/tmp/nobody sh -c '
    mkdir -p -m 700 /tmp/nobody && pantler mount /tmp/origin /tmp/mounted --cache 8M > /dev/null &&
    cmp /tmp/origin/data /tmp/mounted/data && pantler hint set-policy 0 mru && pantler umount /tmp/mounted'
result user_mount.status $?

# An origin on another machine, by NFS: here it is this one.
mkdir -p /srv/shared /mnt/shared /mnt/mounted
cp /tmp/origin/data /srv/shared/data
echo '/srv/shared 127.0.0.1(rw,fsid=0,no_root_squash,no_subtree_check)' > /etc/exports
systemctl start nfs-server && mount -t nfs4 127.0.0.1:/ /mnt/shared
result nfs.status $?
pantler mount /mnt/shared /mnt/mounted --cache 4M > /dev/null &&
    cmp /srv/shared/data /mnt/mounted/data && echo written > /mnt/mounted/new &&
    [ "$(cat /srv/shared/new)" = written ] && pantler hint set-policy 0 mru && pantler umount /mnt/mounted
result nfs_mount.status $?
# Bytes that were read from the server so far.
fetched() { awk '/mounted on \/mnt\/shared /, /xprt/ { if ($1 == "bytes:") print $6 }' /proc/self/mountstats; }
for round in 1 2 3 4 5 6; do echo 'cat /mnt/shared/data > /dev/null'; done > scans
for way in alone steered; do
    sync; echo 3 > /proc/sys/vm/drop_caches
    before=$(fetched)
    if [ $way = alone ]; then
        systemd-run --quiet --scope -p MemoryMax=7M sh scans
    else
        pantler run --memory 7M --policy mru -- sh scans
    fi
    result "nfs_$way.status" $?
    result "nfs_$way.bytes" $(($(fetched) - before))
done
umount /mnt/shared; systemctl stop nfs-server

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
