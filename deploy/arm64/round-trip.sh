#!/bin/sh
# Shows that the daemon decides from a reading: a broker, a reading, and the decision that counts
# it; then how its kernels were compiled, according to `status`, and its memory, including
# qemu's. test.sh runs it by run.sh.
set -eu

port=$(shuf -i 20000-29999 -n 1)
config=$(mktemp)
sed "s/^port = .*/port = $port/
    s/^interval = .*/interval = \"2s\"/
    s/^reply_timeout = .*/reply_timeout = \"1s\"/" deploy/config.example.toml >"$config"

mosquitto -p "$port" 2>/dev/null &
broker=$!
until mosquitto_pub -p "$port" -t here -n 2>/dev/null; do sleep 0.2; done
edge-tvbo run "$config" &
daemon=$!
trap 'kill $daemon $broker' EXIT

mosquitto_sub -p "$port" -t edge_tvbo/lab/status -C 1 -W 600
mosquitto_pub -p "$port" -t lab/mote-1/temperature -m "{\"t\": 25.5, \"ts\": $(date +%s)}"
mosquitto_sub -p "$port" -t edge_tvbo/lab/temperature/selected -W 600 |
    grep -m 1 '"mean":25.*"observations":1'
held=$(sed -n 's/^VmRSS:[[:space:]]*//p' "/proc/$daemon/status")
kernels=$(edge-tvbo status "$config" | sed -n 's/.*, \(kernels compiled .*\)/\1/p')
trap - EXIT
kill $daemon $broker
wait
echo "a decision counts the reading; $kernels; the daemon, and qemu for it, hold $held"
