# What a guest tries of the packages for Debian: a newcomer's path, the service, and that nothing stays. A line
# `result NAME VALUE` is a result; all else is there for people.
cd /root || exit 1
mkdir -p /lib/modules
mount --bind /job/modules/lib/modules /lib/modules
modprobe -qa fuse

result() { echo "result $1 $2"; }
status() { name=$1; shift; "$@"; result "$name.status" $?; }
guide=/var/tmp/guide
data=$guide/data/table
forget() { dd of="$1" oflag=nocache conv=notrunc,fdatasync count=0 status=none; }

# A newcomer: the package, and the guide that comes with it.
begin=$(date +%s)
status install dpkg --install /job/pantler_*.deb
status doctor pantler doctor
sed -n '/^## One command/,/^## What/s/^\$ //p' /usr/share/doc/pantler/GUIDE.md > words
cat words
result guide.commands "$(grep -c 'pantler run' words)"
status guide sh -e words 2> said
cat said
result guide.seconds $(($(date +%s) - begin))
# Of each run that has a budget of its own: MiB read, and what LRU would have read.
saved() { sed -n 's/^pantler: read .* blocks, \([0-9.]*\) MiB from disk, LRU would have read about \([0-9.]*\) MiB.*/\1 \2/p' "$1"; }
result guide.saved "$(saved said | tr '\n' ' ')"

# What else is there.
status page gzip --test /usr/share/man/man1/pantler-run.1.gz
status completion bash -c '. /usr/share/bash-completion/completions/pantler && complete -p pantler'
result library "$(ldconfig -p | grep -c 'libpantler.so.0 ')"
status development dpkg --install /job/libpantler-dev_*.deb
status verified dpkg --verify pantler libpantler-dev

# Nothing runs before somebody wants it.
result fresh "$(systemctl is-active pantler) $(systemctl is-enabled pantler)"
useradd --create-home --groups pantler guest
override=/etc/systemd/system/pantler.service.d
mkdir -p $override
systemd-analyze verify --man=no pantler.service; result unit.status $?

# Ends with what the daemon did not do: its own program by its own rights, its mounts by those of their users.
head -c 8M /dev/urandom > $guide/small; chmod 644 $guide/small
cat > mapped.py <<'END'
import mmap
with open("/var/tmp/guide/small", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
    for _ in range(4):
        for at in range(0, len(mapped), 4096):
            mapped[at]
END
cp mapped.py /var/tmp/mapped.py
# MiB that a run which joined the daemon read.
joined() { sed -n 's/^pantler: .*read [0-9]* blocks, \([0-9.]*\) MiB from disk.*/\1/p' "$1"; }
# Reads 8 MiB four times with half of it in memory. Without steering 8 MiB are read, by LRU 32.
steered() {
    most=$1; shift
    forget $guide/small
    runuser -u guest -- pantler run --policy mru -- "$@" 2> said < /dev/null || return 1
    cat said
    awk -v read="$(joined said)" -v most="$most" 'BEGIN { exit !(read > 12 && read < most) }'
}
capability() { python3 -c 'import os, sys; os.setxattr(sys.argv[1], "security.capability", bytes.fromhex("0000000200040000000000000000000000000000"))' "$1"; }
work() {
    wrong=
    step() { name=$1; shift; "$@" || wrong="$wrong $name"; }
    mkdir -p -m 777 $guide/open; chmod 777 $guide/open
    mkdir -p $guide/mounted
    step start systemctl restart pantler
    step group [ "$(stat -c %G /run/pantler/control.sock)" = pantler ]
    step steered steered 27 sh -c 'for i in 1 2 3 4; do cat /var/tmp/guide/small; done > /dev/null'
    step mapped steered 64 python3 /var/tmp/mapped.py
    step mount pantler mount $guide/open $guide/mounted --cache 8M
    step seen mountpoint -q $guide/mounted
    step user runuser -u guest -- sh -c 'umask 077; mkdir /var/tmp/guide/mounted/own && echo a > /var/tmp/guide/mounted/own/file'
    step owner [ "$(stat -c %U $guide/open/own/file)" = guest ]
    step write sh -c "echo b >> $guide/mounted/own/file"
    step mode chmod 2755 $guide/mounted/own/file
    step group_bit [ "$(stat -c %a $guide/open/own/file)" = 2755 ]
    step give chown root:guest $guide/mounted/own/file
    step device mknod $guide/mounted/null c 1 3
    step capability capability $guide/mounted/own/file
    step umount pantler umount $guide/mounted
    umount $guide/mounted 2> /dev/null
    rm -rf $guide/open
}
# As it comes, and with less memory.
status shipped systemctl start pantler
systemctl stop pantler
printf '[Service]\nEnvironment="OPTIONS=--memory 4M"\n' > $override/memory.conf
systemctl daemon-reload
work
result service.wrong "${wrong:-nothing}"
status found sh -c 'pantler doctor | grep "ok *control *daemon"'
systemctl status --no-pager pantler | head -20
journalctl --unit pantler --no-pager | tail -30

# Each capability that the service has is needed for some of it.
for capability in $(systemctl show --property CapabilityBoundingSet --value pantler | tr a-z A-Z); do
    printf '[Service]\nCapabilityBoundingSet=~%s\n' "$capability" > $override/capability.conf
    systemctl daemon-reload
    work > /dev/null 2>&1
    result "without.$capability" "${wrong:-nothing}"
    systemctl reset-failed pantler
done
rm $override/capability.conf
systemctl daemon-reload
systemctl start pantler

# The guide's file, by an ordinary user through the service.
printf '[Service]\nEnvironment="OPTIONS=--memory 64M"\n' > $override/memory.conf
systemctl daemon-reload
systemctl restart pantler
forget $data
status joined runuser -u guest -- pantler run --policy mru -- sh -c "for i in 1 2 3 4 5; do cat $data; done > /dev/null" 2> said
cat said
result joined.saved "$(joined said) 480"

status stop systemctl stop pantler
result stopped "$(systemctl is-failed pantler)"
(
    ls /sys/kernel/tracing/instances
    # The folder of sockets stays, for hosts of root.
    find /sys/fs/cgroup /run \( -name '*pantler*' -o -path '/run/pantler/*' \) ! -path /run/pantler | grep -v systemd
) > left
cat left
result stopped.left "$(grep -c . left)"

# What was enabled and what was made goes with the package; what its user made stays.
systemctl enable pantler; result enabled "$(systemctl is-enabled pantler)"
rm -r $override
status purge dpkg --purge libpantler-dev pantler
(
    find / /run -xdev -path $guide -prune -o -path /var/log -prune -o -iname '*pantler*' -print | grep -v '^/run/pantler$'
    getent group pantler
    find /sys/fs/cgroup -name '*pantler*'
    dpkg --list 'pantler*' 'libpantler*' 2> /dev/null | grep pantler
) > left
cat left
result purged.left "$(grep -c . left)"
result end 0
