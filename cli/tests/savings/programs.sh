# What the rows of rows.rs run: `sh programs.sh prepare|run ROW`, in the row's folder. `$MB` is the
# size of its data, `$PATTERNS` patterns.py.
set -e
export LC_ALL=C

# Files that cannot be compressed, named 1 to COUNT, with so many KiB each.
noise() { # FOLDER COUNT KIB
    mkdir -p "$1"
    /usr/bin/python3 "$PATTERNS" noise "$1" "$2" "$3"
}
five() {
    for pass in 1 2 3 4 5; do "$@" > /dev/null || exit 1; done
}
# A service that answers while something else runs, and then once more of each block.
beside() {
    rm -f warm ended
    $SERVICE /usr/bin/python3 "$PATTERNS" serve hot/1 &
    service=$!
    while [ ! -e warm ]; do kill -0 $service || exit 1; sleep 0.02; done
    "$@" > /dev/null
    : > ended
    wait $service
}

backup_with_restic() {
    export RESTIC_PASSWORD=secret
    rm -rf repository cache
    $BESIDE sh -c 'restic --quiet --repo repository --cache-dir cache init > /dev/null &&
        restic --quiet --repo repository --cache-dir cache backup data'
}
backup_with_borg() {
    export BORG_BASE_DIR="$PWD/cache" BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes
    rm -rf repository cache
    $BESIDE sh -c 'borg init --encryption none repository && borg create --compression none repository::one data'
}
backup_with_tar() {
    $BESIDE tar --create --file - data | cat
}
install_packages() {
    rm -rf root
    mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates root/var/lib/dpkg/triggers
    : > root/var/lib/dpkg/status
    $BESIDE dpkg --root=root --log=/dev/null --force-not-root --force-depends --force-script-chrootless --unpack packages/*.deb
}
link() {
    $BESIDE ld -r -o linked objects/*.o
}
pull_image() {
    rm -rf pulled bundle
    $BESIDE sh -c 'skopeo --insecure-policy copy --quiet oci:image:one oci:pulled:one && umoci unpack --image pulled:one bundle'
}
# A script as user postgres, which PostgreSQL wants instead of root; `$SOCKETS` is for its socket.
as_postgres() {
    SOCKETS=$(mktemp -d)
    chown postgres "$SOCKETS" .
    status=0
    bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1) SOCKETS=$SOCKETS \
        setpriv --reuid=postgres --regid=postgres --clear-groups sh -ec "$1" || status=$?
    rm -r "$SOCKETS"
    return $status
}
start_postgres='
    $bin/postgres -D data -k "$SOCKETS" -h "" -c fsync=off -c autovacuum=off -c jit=off \
        -c shared_buffers=1MB -c max_parallel_workers_per_gather=0 2> "$SOCKETS/log" &
    server=$!
    trap "kill -INT $server; wait $server" EXIT
    until "$bin/pg_isready" -q -h "$SOCKETS"; do kill -0 $server; sleep 0.02; done
    ask() { psql -qAt -h "$SOCKETS" postgres -c "$1"; }'
make_database='
    $bin/initdb -D data -A trust --no-sync -E UTF8 --locale C > "$SOCKETS/init"
    '"$start_postgres"'
    mkdir -p indexes
    ask "CREATE TABLESPACE indexes LOCATION '"'\$PWD/indexes'"'"
    ask "CREATE TABLE accounts AS SELECT i, repeat(md5(i::text), 3) AS text FROM generate_series(1, $MB * 5000) i"
    ask "ALTER TABLE accounts ADD PRIMARY KEY (i) USING INDEX TABLESPACE indexes"
    ask "CREATE TABLE report AS SELECT i, repeat(md5(i::text), 30) AS text FROM generate_series(1, $MB * 2000) i"
    ask "VACUUM FREEZE ANALYZE"
    ask CHECKPOINT'
# Accounts are looked up at random while a report reads a table twice.
ask_database="$start_postgres"'
    lookups() {
        echo "\\set i random_zipfian(1, $MB * 5000, 1.05)
            SELECT text FROM accounts WHERE i = :i;" > "$SOCKETS/lookup"
        $bin/pgbench -h "$SOCKETS" -n -f "$SOCKETS/lookup" -t "$1" --random-seed=94 postgres > /dev/null
    }
    lookups $((MB * 400))
    (for pass in 1 2; do ask "SELECT max(text) FROM report" > /dev/null; done) &
    report=$!
    lookups $((MB * 400))
    wait $report'
compile() {
    mkdir -p objects
    for source in sources/*.c; do
        gcc -O0 -c -Iheaders -o "objects/$(basename "$source" .c).o" "$source"
    done
}

case "$1 $2" in
"prepare weights-read" | "prepare mapped-cycles")
    noise . 1 $((MB * 1024))
    ;;
"run weights-read")
    five /usr/bin/python3 "$PATTERNS" read 1
    ;;
"run mapped-cycles")
    /usr/bin/python3 "$PATTERNS" cycles 1 5
    ;;
"prepare epochs")
    noise . $((MB * 20)) 51
    ;;
"run epochs")
    /usr/bin/python3 "$PATTERNS" epochs . 6
    ;;
"prepare merges")
    noise . 12 $((MB * 1024 / 12))
    ;;
"run merges")
    rm -f merged.*
    /usr/bin/python3 "$PATTERNS" merges .
    # Data is what was there before.
    rm merged.*
    ;;
"prepare lmdb")
    /usr/bin/python3 "$PATTERNS" fill store $((MB * 1024 / 4))
    ;;
"run lmdb")
    /usr/bin/python3 "$PATTERNS" look store $((MB * 1024 / 4)) $((MB * 1024))
    ;;
"prepare vectors")
    noise . 1 $((MB * 1024))
    noise graph 1 $((MB * 1024 / 8))
    ;;
"run vectors")
    /usr/bin/python3 "$PATTERNS" vectors graph/1 1 $((MB * 64))
    ;;
"prepare ripgrep")
    /usr/bin/python3 "$PATTERNS" texts . $((MB * 60)) 17
    ;;
"run ripgrep")
    five sh -c 'rg --quiet -e no_such_text . || true'
    ;;
"prepare fd")
    /usr/bin/python3 "$PATTERNS" texts . $((MB * 60)) 17
    ;;
"run fd")
    five fdfind no_such_name
    ;;
"prepare sqlite")
    sqlite3 table "CREATE TABLE scanned (id INTEGER PRIMARY KEY, body TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $((MB * 1000)))
        INSERT INTO scanned SELECT i, printf('%01000d', i) FROM n;"
    ;;
"run sqlite")
    five sqlite3 -readonly table 'SELECT max(body) FROM scanned'
    ;;
"prepare postgresql")
    as_postgres "$make_database"
    ;;
"run postgresql")
    as_postgres "$ask_database"
    ;;
"prepare gcc")
    /usr/bin/python3 "$PATTERNS" sources $((MB / 2))
    ;;
"run gcc")
    compile
    ;;
"prepare ld")
    noise hot 1 $((MB * 1024))
    /usr/bin/python3 "$PATTERNS" objects $((MB * 3 / 2))
    ;;
"prepare restic" | "prepare borg" | "prepare tar")
    noise hot 1 $((MB * 1024))
    noise data $((MB * 4)) 512
    ;;
"prepare dpkg")
    noise hot 1 $((MB * 1024))
    mkdir packages
    for number in 1 2 3 4 5 6 7 8; do
        noise package$number/usr/share/noise$number 8 $((MB * 1024 / 64 * 3 / 2))
        mkdir package$number/DEBIAN
        printf 'Package: noise%s\nVersion: 1\nArchitecture: all\nMaintainer: none <none@example.com>\nDescription: noise\n' \
            $number > package$number/DEBIAN/control
        dpkg-deb --build -Zgzip -z1 package$number packages > /dev/null
        rm -r package$number
    done
    ;;
"prepare image")
    noise hot 1 $((MB * 1024))
    noise layer 16 $((MB * 1024 / 16 * 3 / 2))
    umoci init --layout image
    umoci new --image image:one
    umoci insert --image image:one layer /layer > /dev/null
    rm -r layer
    ;;
"run restic") beside backup_with_restic ;;
"run borg") beside backup_with_borg ;;
"run ld") beside link ;;
"run tar") beside backup_with_tar ;;
"run dpkg") beside install_packages ;;
"run image") beside pull_image ;;
*)
    echo "no row $2" >&2
    exit 1
    ;;
esac
