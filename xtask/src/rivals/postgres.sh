# pgbench, read only, beside a report that reads a table twice. For user postgres, in the folder of
# the cluster; `$SOCKETS` is a folder for its socket, `$SAID` a file for figures.
set -e
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
"$bin/postgres" -D data -k "$SOCKETS" -h "" -c fsync=off -c autovacuum=off -c jit=off \
    -c shared_buffers=8MB -c max_parallel_workers_per_gather=0 2> "$SOCKETS/log" &
server=$!
trap 'kill -INT $server; wait $server' EXIT
trap 'exit 1' TERM
until "$bin/pg_isready" -q -h "$SOCKETS"; do kill -0 $server; sleep 0.02; done
ask() { psql -qAt -h "$SOCKETS" postgres -c "$1" > /dev/null; }
for pass in 1 2; do
    ask "SELECT pg_prewarm('pgbench_accounts', 'read'), pg_prewarm('pgbench_accounts_pkey', 'read')"
done
(for pass in 1 2; do ask "SELECT max(text) FROM report"; done) &
report=$!
rm -f "$SOCKETS"/answers.*
"$bin/pgbench" -h "$SOCKETS" -n -S -t 10000 --log --log-prefix "$SOCKETS/answers" --random-seed=94 postgres > /dev/null 2>&1
wait $report
# Microseconds of each answer; more than a millisecond is slow.
cut -d " " -f 3 "$SOCKETS"/answers.* | sort -n > "$SOCKETS/times"
awk '{ took[NR] = $1; slow += $1 > 1000 } END { print slow + 0, took[int(NR * 0.99)] }' "$SOCKETS/times" > "$SOCKETS/said"
