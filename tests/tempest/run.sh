#!/usr/bin/env bash
# Runs tempest's and neutron-tempest-plugin's network tests against a Roost with a real Keystone: run.sh VENV FOLDER
# With `compute` as a third word: tempest's compute tests instead, on all of Roost, with an agent of two hosts and a stand-in of Glance.
# Exit status 1 if a test fails that expected.md does not name.
# Everything listens on 127.0.0.1, and is stopped at the end; FOLDER is made anew and keeps configuration and logs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=$1 work=$2 what=${3:-network}
python=${ROOST_PYTHON:-$here/../../.venv/bin/python}
read -r keystone_port roost_port agent_port image_port < <("$python" - <<'PYTHON'
import socket

sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
print(*(one.getsockname()[1] for one in sockets))
PYTHON
)
keystone_url=http://127.0.0.1:$keystone_port
roost_url=http://127.0.0.1:$roost_port
rm -rf "$work"
mkdir -p "$work"/keystone/{fernet,credential} "$work/locks"
chmod 711 "$work"
chmod 700 "$work"/keystone/{fernet,credential}
pids=()
stop() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
}
trap stop EXIT

until_answers() {
    for _ in $(seq 300); do
        "$python" -c "import sys, urllib.request as r; r.urlopen(sys.argv[1])" "$1" 2>/dev/null && return
        sleep 0.2
    done
    echo "no answer from $1; see the logs in $work" >&2
    exit 1
}

cat >"$work/keystone.conf" <<CONF
[database]
connection = sqlite:///$work/keystone/keystone.db?timeout=60
[token]
provider = fernet
[fernet_tokens]
key_repository = $work/keystone/fernet
[credential]
key_repository = $work/keystone/credential
[identity]
password_hash_algorithm = bcrypt
password_hash_rounds = 4
[oslo_messaging_notifications]
driver = noop
CONF
manage=("$venv/bin/keystone-manage" --config-file "$work/keystone.conf")
user=$(id -un) group=$(id -gn)
"${manage[@]}" db_sync >"$work/keystone-manage.log" 2>&1
for keys in fernet_setup credential_setup; do
    "${manage[@]}" "$keys" --keystone-user "$user" --keystone-group "$group" >>"$work/keystone-manage.log" 2>&1
done
"${manage[@]}" bootstrap --bootstrap-password secret --bootstrap-region-id RegionOne \
    --bootstrap-public-url "$keystone_url/v3" --bootstrap-internal-url "$keystone_url/v3" \
    --bootstrap-admin-url "$keystone_url/v3" >>"$work/keystone-manage.log" 2>&1
env OS_KEYSTONE_CONFIG_FILES="$work/keystone.conf" OS_KEYSTONE_CONFIG_DIR="$work" \
    KEYSTONE_BIND="127.0.0.1:$keystone_port" KEYSTONE_FOLDER="$work" GUNICORN_CMD_ARGS="--config $here/gunicorn.conf.py" \
    "$venv/bin/gunicorn" >"$work/keystone.log" 2>&1 &
pids+=($!)
until_answers "$keystone_url/v3"

endpoints=("network=$roost_url/network") services=(placement network)
if [ "$what" = compute ]; then
    endpoints+=("compute=$roost_url/compute/v2.1" "image=http://127.0.0.1:$image_port") services=(all --agent-listen "127.0.0.1:$agent_port")
fi
"$venv/bin/python" "$here/catalogue.py" "$keystone_url/v3" "${endpoints[@]}"

cat >"$work/roost.toml" <<CONF
[keystone]
auth_url = "$keystone_url"
username = "roost"
password = "secret"
CONF
if [ "$what" = compute ]; then
    printf '[compute]\nimage_url = "http://127.0.0.1:%s"\n' "$image_port" >>"$work/roost.toml"
    "$python" "$here/images.py" "$image_port" >"$work/images.log" 2>&1 &
    pids+=($!)
fi
(cd "$work" && exec "$python" -c "from roost.cli.main import main; main()" serve "${services[@]}" \
    --listen "127.0.0.1:$roost_port" --auth keystone --config "$work/roost.toml" --data-dir "$work/data") \
    >"$work/roost.log" 2>&1 &
pids+=($!)
until_answers "$roost_url/network/"

nova=false
if [ "$what" = compute ]; then
    nova=true
    "$python" -c "from roost.cli.manage import main; main()" agent-token create --host '*' --data-dir "$work/data" \
        >"$work/token" 2>"$work/token.log"
    (cd "$work" && exec "$python" -c "from roost.cli.main import main; main()" agent --api "$roost_url" --host h1 --host h2 \
        --token-file "$work/token") >"$work/agent.log" 2>&1 &
    pids+=($!)
    until "$python" -c "from roost.cli.manage import main; main()" host accept h1 h2 --data-dir "$work/data" >>"$work/accept.log" 2>&1; do
        sleep 1
    done
    "$venv/bin/python" "$here/cloud.py" "$keystone_url/v3" "$roost_url/compute/v2.1" "$roost_url/network"
fi
sed -e "s|@@NOVA@@|$nova|g; s|@@KEYSTONE@@|$keystone_url/v3|; s|@@WORK@@|$work|; s|@@ROOST@@|$roost_url|" "$here/tempest.conf.in" >"$work/tempest.conf"
"$venv/bin/python" "$here/extensions.py" "$keystone_url/v3" "$roost_url/network" >>"$work/tempest.conf"
cd "$work"
"$venv/bin/tempest" init --workspace-path "$work/workspaces.yaml" "$work/workspace" >"$work/init.log" 2>&1
cp "$work/tempest.conf" "$work/workspace/etc/tempest.conf"
cd "$work/workspace"
regex=${TEMPEST_REGEX:-$(grep -v '^#' "$here/tests-$what.txt" | paste -sd'|')}
"$venv/bin/tempest" run --concurrency "${TEMPEST_CONCURRENCY:-1}" --regex "$regex" >"$work/tempest.log" 2>&1 || true
"$venv/bin/stestr" last --subunit | "$venv/bin/python" "$here/summary.py" "$here/expected.md" "$what"
