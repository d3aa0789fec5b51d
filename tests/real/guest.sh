# shellcheck shell=bash
# Parts of the checks that run in a system whose process 1 is systemd. SLOW=n multiplies each time
# limit, for emulated processors; bin and conf say what was installed.
SLOW=${SLOW:-1}
u=edge-tvbo.service
conf=/etc/edge-tvbo/config.toml
bin=${bin:-/opt/edge-tvbo/bin/edge-tvbo}

pass() { echo "PASS $1 | ${2//$'\n'/; }"; }
fail() { echo "FAIL $1 | ${2//$'\n'/; }"; }
skip() { echo "SKIP $1 | ${2//$'\n'/; }"; }
# is NAME FOUND WANTED
is() { if [ "$2" = "$3" ]; then pass "$1" "$2"; else fail "$1" "got '$2' instead of '$3'"; fi; }
prop() { systemctl show -P "$1" $u; }
# soon SECONDS CONDITION: wait until the condition holds.
soon() {
    local end=$((SECONDS + $1 * SLOW))
    until eval "$2" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.5
    done
}
metric() {
    curl -sS -m 20 http://127.0.0.1:9464/metrics | awk -v n="$1" '$1 ~ "^"n"({|$)" {print $2; exit}'
}
is_online() { [ "$(metric edge_tvbo_link_online)" = 1.0 ]; }
retained() { mosquitto_sub -h 127.0.0.1 -u watcher -P pw-watcher -t "$1" -C 1 -W $((15 * SLOW)); }
interval() { retained edge_tvbo/lab/temperature/selected | grep -o '"interval":[0-9]*' | cut -d: -f2; }
log_of() { journalctl -u $u -b -o cat "$@"; }
# has_logged SINCE TEXT: whether the daemon has logged a text since a time in seconds.
has_logged() { journalctl -u $u -b -o cat --since "@$1" | grep -qi -- "$2"; }
is_replaced() { [ "$(prop ActiveState)" = active ] && [ "$(prop MainPID)" != "$1" ]; }

# Three sensors that report every few seconds, until the script ends.
start_sensors() {
    while :; do
        for m in 1 2 3; do
            mosquitto_pub -h 127.0.0.1 -u mote-$m -P pw-mote-$m -t lab/mote-$m/temperature \
                -m "{\"t\": 2$m.5, \"ts\": $(date +%s)}" 2>/dev/null
        done
        sleep 3
    done &
    sensors=$!
    trap 'kill $sensors' EXIT
}

# Logins as deploy/README.md says; short intervals, metrics and a history.
configure() {
    for login in edge-tvbo watcher operator mote-1 mote-2 mote-3; do
        mosquitto_passwd -b /etc/mosquitto/passwords $login pw-$login
    done 2>/dev/null
    printf 'pw-edge-tvbo\n' | install -m 600 /dev/stdin /etc/edge-tvbo/mqtt.password
    printf 'pw-watcher\n' | install -m 640 -g edge-tvbo /dev/stdin /etc/edge-tvbo/watcher.password
    sed -i 's/^# username = .*/username = "edge-tvbo"/
        s/^# password_file = .*/password_file = "mqtt.password"/
        s/^# readonly = /readonly = /
        s/^# \[metrics\]/[metrics]/
        s/^# port = 9464/port = 9464/
        s/^interval = .*/interval = "5s"/
        s/^reply_timeout = .*/reply_timeout = "2s"/
        s/^checkpoint = .*/checkpoint = "20s"/
        s/^# history = .*/history = "64MiB"/' $conf
    systemctl restart mosquitto
}

# Connect to another address of this machine than loopback's, under the filter of the unit.
no_other_machine() {
    ip link set lo up
    ip addr add 10.99.0.1/32 dev lo 2>/dev/null
    local connect='import socket
for address in "127.0.0.1", "10.99.0.1":
    try:
        socket.create_connection((address, 9464), 3)
        print(address, "open", end="; ")
    except OSError as error:
        print(address, type(error).__name__, end="; ")' found
    found=$(systemd-run -q --pipe --wait -p User=edge-tvbo -p IPAddressDeny=any \
        -p IPAddressAllow=localhost python3 -c "$connect" 2>&1)
    case $found in
    *'10.99.0.1 PermissionError; ' | *'10.99.0.1 TimeoutError; ') pass 'no other machine' "$found" ;;
    *)
        if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
            fail 'no other machine' "$found"
        else
            skip 'no other machine' 'IPAddressDeny needs control groups of version 2'
        fi
        ;;
    esac
}
