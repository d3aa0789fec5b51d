#!/bin/sh
# The image and compose.yaml under a real Docker, with the Dockerfile as it is. There is no registry here:
# images made of Debian 13 stand in for python:3.13-slim and eclipse-mosquitto:2.
# Not shown: those two images, and an image for arm64.
#
#   sudo tests/real/container/run.sh
# shellcheck disable=SC2016,SC2086 # `check` and `soon` evaluate their text; $network is several words
set -eu
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/real/lib.sh
. "$here/../lib.sh"

checks=15
docker=/usr/bin/docker
need_root
need dockerd docker.io iptables
need docker-compose docker-compose
need mmdebstrap mmdebstrap
need mosquitto_sub mosquitto-clients
need nsenter util-linux
where=$state/docker
log=$state/container.log
mkdir -p "$where"
: >"$log"
export DOCKER_HOST="unix://$where/sock"

pass() { echo "PASS $1 | ${2:-}" | tee -a "$log"; }
fail() { echo "FAIL $1 | ${2:-}" | tee -a "$log"; }
# check NAME COMMAND: the command succeeds.
check() { if found=$(eval "$2" 2>&1); then pass "$1" "$(one_line)"; else fail "$1" "$(one_line)"; fi; }
one_line() { echo "$found" | tail -2 | tr '\n' ' '; }
# soon SECONDS COMMAND: wait until the command succeeds.
soon() {
    tries=$1
    until eval "$2" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 1
    done
}

# --- Docker's daemon, at first in this machine's network: `RUN pip` wants PyPI ---------------------------

# dockerd_start [ARGUMENT...]: start it by a command such as unshare, or directly.
dockerd_start() {
    setsid "$@" dockerd --data-root "$where/data" --exec-root "$where/exec" --pidfile "$where/pid" \
        -H "$DOCKER_HOST" --storage-driver overlay2 $network </dev/null >"$where/log" 2>&1 &
    soon 60 "$docker info" || {
        dockerd_stop
        skip_all "dockerd does not start here: $(tail -1 "$where/log")"
    }
}

dockerd_stop() {
    [ -e "$where/pid" ] || return 0
    daemon=$(cat "$where/pid")
    kill "$daemon" 2>/dev/null || :
    while kill -0 "$daemon" 2>/dev/null; do sleep 0.3; done
    rm -f "$where/pid"
}

# base NAME PACKAGES: a minimal Debian 13.
base() {
    [ ! -e "$where/$1" ] || return 0
    say "creating a root for $1"
    rm -rf --one-file-system "$where/$1.new"
    mmdebstrap --quiet --mode=root --variant=minbase --include="$2" trixie "$where/$1.new"
    find "$where/$1.new/dev" -mindepth 1 -delete
    mv "$where/$1.new" "$where/$1"
}

base python python3,python3-venv,ca-certificates,libstdc++6
base mosquitto mosquitto,mosquitto-clients
ln -sf /usr/bin/python3 "$where/python/usr/local/bin/python"
cp /etc/ssl/certs/ca-certificates.crt "$where/python/etc/ssl/certs/" # with that of a proxy
chroot "$where/mosquitto" sh -c 'usermod -u 1883 mosquitto; groupmod -g 1883 mosquitto' 2>/dev/null

trap dockerd_stop EXIT
network='--iptables=false --ip6tables=false --bridge=none'
dockerd_start env
tar cf - -C "$where/python" . | $docker import \
    -c 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin' \
    -c 'ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt' - python:3.13-slim >/dev/null
tar cf - -C "$where/mosquitto" . | $docker import \
    -c 'CMD ["/usr/sbin/mosquitto", "-c", "/mosquitto/config/mosquitto.conf"]' - eclipse-mosquitto:2 >/dev/null
image=$(sed -n 's/^ *image: \(edge-tvbo:.*\)/\1/p' "$project/deploy/docker/compose.yaml")
say "docker build"
check build "DOCKER_BUILDKIT=1 $docker build -q --network host -t $image \
    -f '$project/deploy/docker/Dockerfile' '$project'"
check 'size of the image' "$docker image inspect -f '{{.Size}} bytes' $image"
dockerd_stop

# --- compose, as deploy/README.md says, in a network of its own -----------------------------------------
network=
dockerd_start unshare -n -m sh -c 'ip link set lo up; exec "$@"' sh
rm -rf "$where/project"
mkdir "$where/project"
cp -r "$project/deploy" "$where/project/"
cd "$where/project/deploy/docker"
for login in mqtt watcher; do echo "$login" | install -m 600 -o 10001 /dev/stdin $login.password; done
cp ../config.example.toml config.toml
sed -i 's/^host = .*/host = "mosquitto"/
    s/^# username = .*/username = "edge-tvbo"/
    s/^# password_file = .*/password_file = "mqtt.password"/
    s/^# readonly = /readonly = /
    s|^dir = .*|dir = "/var/lib/edge-tvbo"|
    s/^# \[metrics\]/[metrics]/
    s/^# port = 9464/port = 9464/
    s/^interval = .*/interval = "5s"/
    s/^reply_timeout = .*/reply_timeout = "2s"/' config.toml
for login in edge-tvbo:mqtt watcher:watcher; do
    $docker run --rm --network none -v "$PWD:/here" eclipse-mosquitto:2 sh -c \
        "umask 077; touch /here/passwords; mosquitto_passwd -b /here/passwords ${login%:*} ${login#*:}" 2>/dev/null
done
install -m 600 ../acl acl
chown 1883:1883 acl passwords
compose() { docker-compose "$@" 2>&1; }
container() { compose ps -q edge-tvbo | tail -1; }
state_of() { $docker inspect -f "{{$1}}" "$(container)"; }
is_healthy() { [ "$(state_of .State.Health.Status)" = "${1:-healthy}" ]; }
status() { $docker exec "$(container)" /opt/edge-tvbo/bin/edge-tvbo status /etc/edge-tvbo/config.toml; }
in_network() { nsenter -t "$(cat "$where/pid")" -n "$@"; }
selected() {
    in_network mosquitto_sub -h 127.0.0.1 -u watcher -P watcher -C 1 -W 20 \
        -t edge_tvbo/lab/temperature/selected | grep -o '"interval":[0-9]*'
}

check 'compose up' 'compose up -d --no-build'
check healthy 'soon 120 is_healthy'
check 'a decision, through the published port' 'soon 20 selected && selected'
check 'status by docker exec, with [mqtt.readonly]' 'status | grep online'
check 'status did not disconnect the daemon, and the broker warns of no file' \
    '! compose logs | grep -E "another client|Future versions"'
check 'no capabilities, and a read-only system' "$docker exec \$(container) \
    sh -c '! touch /x 2>/dev/null && grep \"CapEff:.0000000000000000\" /proc/1/status'"
echo "     $($docker exec "$(container)" grep VmRSS /proc/1/status | tr -s '\t ' ' ')"

kill -9 "$(state_of .State.Pid)"
check 'kill -9: restarted' 'soon 60 "[ \"\$(state_of .RestartCount)\" = 1 ] && is_healthy"; state_of .State.Status'
compose stop edge-tvbo >/dev/null
check 'stops with status 0' '[ "$(state_of .State.ExitCode)" = 0 ]'
compose down >/dev/null
compose up -d --no-build >/dev/null
check 'the state is kept over down and up' 'soon 60 is_healthy; compose logs edge-tvbo | grep "state: restored"'

# --- an invalid configuration ------------------------------------------------------------------------------
cp config.toml good.toml
sed -i 's/^instance = .*/instance = 3/' config.toml
compose restart edge-tvbo >/dev/null
check 'an invalid configuration is named' 'soon 30 "compose logs edge-tvbo | grep \"is not started\""; compose logs edge-tvbo | grep "instance is 3"'
sleep 15
check 'and not retried' '[ "$(state_of .RestartCount) $(state_of .State.Running)" = "0 true" ]'
cat good.toml >config.toml
compose restart edge-tvbo >/dev/null
check 'runs when it is fixed' 'soon 90 is_healthy'
compose down -v >/dev/null
verdict $checks
