#!/usr/bin/env bash
# Run upstream's openstack-placement in the foreground, with a throw-away PostgreSQL of its own. Everything that it
# starts is a child of this script and ends with it.
#
#   PG_BIN=DIR upstream_server.sh --port 8778 --workdir DIR --venv VENV [--workers 2]
#
# VENV holds openstack-placement, uwsgi and psycopg2-binary; PG_BIN the programs of a PostgreSQL server.
# Nobody is asked for a password (auth_strategy = noauth2): send "X-Auth-Token: admin".
# Files left in DIR: placement.conf, web.pid, db.pid, web.log, db.log.
set -euo pipefail

port=8778 workdir= venv= workers=2
while [ $# -gt 0 ]; do
    case $1 in
        --port) port=$2 ;;
        --workdir) workdir=$2 ;;
        --venv) venv=$2 ;;
        --workers) workers=$2 ;;
        *) echo "unknown option: $1" >&2; exit 2 ;;
    esac
    shift 2
done
[ -n "$workdir" ] || { echo "--workdir is needed" >&2; exit 2; }
for program in "$venv/bin/placement-manage" "$venv/bin/uwsgi" "${PG_BIN:-}/postgres"; do
    [ -x "$program" ] || { echo "there is no program $program" >&2; exit 2; }
done
mkdir -p "$workdir"
workdir=$(cd "$workdir" && pwd)
db_port=$((port + 10000 > 65535 ? port - 10000 : port + 10000))

pids=()
stop() {
    trap - EXIT INT TERM
    # Web first, then the database, each by its own process id.
    local i
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        kill -TERM "${pids[i]}" 2>/dev/null || true
        wait "${pids[i]}" 2>/dev/null || true
    done
}
trap stop EXIT
trap 'stop; exit 143' INT TERM

mkdir -p "$workdir/pg"
as_db_user=()
if [ "$(id -u)" = 0 ]; then # PostgreSQL refuses to run as root
    for user in postgres roost; do
        if id "$user" >/dev/null 2>&1; then
            chown "$user" "$workdir/pg"
            as_db_user=(setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups)
            break
        fi
    done
fi
(cd "$workdir/pg" && "${as_db_user[@]}" "$PG_BIN/initdb" -D "$workdir/pg/data" \
    -U placement -A trust -E UTF8 --locale=C) >"$workdir/db.log" 2>&1
# Stock settings but for the statistics: autovacuum looks at the tables every few seconds, as fresh statistics are what
# a database has that has been in use for some time.
(cd "$workdir/pg" && exec "${as_db_user[@]}" "$PG_BIN/postgres" -D "$workdir/pg/data" \
    -c listen_addresses=127.0.0.1 -p "$db_port" -c unix_socket_directories="$workdir/pg" \
    -c autovacuum_naptime=5s) >>"$workdir/db.log" 2>&1 &
pids+=($!)
echo $! >"$workdir/db.pid"
for ((n = 0; ; n++)); do
    "$PG_BIN/psql" -h 127.0.0.1 -p "$db_port" -U placement -d postgres -c 'select 1' >/dev/null 2>&1 && break
    [ "$n" -lt 300 ] || { echo "PostgreSQL did not come up:" >&2; tail -n 20 "$workdir/db.log" >&2; exit 1; }
    sleep 0.2
done
"$PG_BIN/createdb" -h 127.0.0.1 -p "$db_port" -U placement placement

cat >"$workdir/placement.conf" <<CONF
[DEFAULT]
debug = false
[api]
auth_strategy = noauth2
[placement_database]
connection = postgresql+psycopg2://placement@127.0.0.1:$db_port/placement
CONF
export OS_PLACEMENT_CONFIG_DIR=$workdir
export PYTHONDONTWRITEBYTECODE=1
"$venv/bin/placement-manage" --config-file "$workdir/placement.conf" db sync >"$workdir/web.log" 2>&1
# Starting up fills in the standard traits and resource classes: once, here, before the workers race to do so.
"$venv/bin/python" -c 'import placement.wsgi.api' >>"$workdir/web.log" 2>&1

cd "$workdir"
"$venv/bin/uwsgi" --http-socket "127.0.0.1:$port" --master --die-on-term --need-app --lazy-apps \
    --processes "$workers" --threads 1 --enable-threads --listen 100 --reload-mercy 5 --worker-reload-mercy 5 \
    --buffer-size 65535 --disable-logging --virtualenv "$venv" --module placement.wsgi.api:application \
    >>"$workdir/web.log" 2>&1 &
pids+=($!)
echo $! >"$workdir/web.pid"
wait $!
