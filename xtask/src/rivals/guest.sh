# Reads of programs in a guest. A line `result NAME VALUE` is a result; all else is for people.
cd /root || exit 1
mkdir -p /lib/modules
mount --bind /job/modules/lib/modules /lib/modules
cp /job/pantler /usr/local/bin/
result() { echo "result $1 $2"; }
# Sectors read so far from the disk of the data.
sectors() { awk '$3 == "vdb" { print $6 }' /proc/diskstats; }
cold() { sync; echo 3 > /proc/sys/vm/drop_caches; }
by() { echo "$1" > /sys/kernel/mm/lru_gen/enabled; }

result kernel "$(uname -r)"
mkdir -p /job/tree /job/database /job/files /job/weights
tar -xf /job/tree.tar -C /job/tree
(cd /job/tree && find . -name '*.[ch]' > /job/database/cscope.files)
(cd /job/tree && cscope -b -c -k -i /job/database/cscope.files -f /job/database/cscope.out)
for number in $(seq 0 499); do head -c 53000 /dev/zero > "/job/files/$number"; done
head -c 33554432 /dev/zero > /job/weights/weights

# Pages of all files below a folder, in bytes.
pages() { find "$1" -type f -printf '%s\n' | awk '{ sum += int(($1 + 4095) / 4096) * 4096 } END { printf "%d", sum }'; }
# The most memory that a program holds besides files, in a run without a limit.
besides() {
    systemd-run --quiet --scope --unit besides sh /root/program > /dev/null 2>&1 & running=$!
    most=0
    while kill -0 $running 2> /dev/null; do
        now=$(awk '$1 == "anon" || $1 == "kernel" { sum += $2 } END { printf "%d", sum }' /sys/fs/cgroup/system.slice/besides.scope/memory.stat 2> /dev/null)
        [ "${now:-0}" -gt $most ] && most=$now
        sleep 0.2
    done
    wait $running
    echo $most
}
# Runs a command with nothing cached before, and tells its status and the bytes read from the disk.
measure() {
    name=$1; shift
    cold
    before=$(sectors)
    "$@" > /dev/null
    result "$name.status" $?
    result "$name.bytes" $((($(sectors) - before) * 512))
}
row() {
    row=$1; folder=$2; script=$3
    printf 'cd %s || exit 1\n%s\n' "$folder" "$script" > program
    data=$(pages "${4:-$folder}")
    budget=$((data * 2 / 3 / 4096 * 4096))
    besides=$(besides)
    [ "$besides" -gt 0 ] || { echo "$row: what it holds besides files is not told"; return 1; }
    limit=$((budget + besides / 4096 * 4096))
    result "$row.data" "$data"
    result "$row.budget" $budget
    result "$row.limit" $limit
    for order in classic mglru; do
        if [ $order = classic ]; then by n; else by y; fi
        measure "$row.$order" systemd-run --quiet --scope -p MemoryMax=$limit sh program
        measure "$row.run-$order" pantler run --quiet --memory $budget --profile none -- sh program
    done
    echo "$row took until $(cut -d. -f1 /proc/uptime) s"
}
five() { echo "for pass in 1 2 3 4 5; do $1 || exit 1; done"; }
row cscope /job/database "$(five 'cscope -d -c -k -L0 get_page')" /job/database/cscope.out
row ripgrep /job/tree "$(five '{ rg --quiet -e no_such_text . || true; }')"
row epochs /job/files 'python3 /job/reader.py epochs . 5'
row weights-read /job/weights "$(five 'python3 /job/reader.py read weights')"
result end 0
