#!/bin/sh
# In a clean root: the wheel of /root/compiled, and that of /root/jit, which compiles its kernels just in time.
cd /root || exit
pass() { echo "PASS $1 | $2"; }
fail() { echo "FAIL $1 | $2"; }
check() { if found=$(eval "$2" 2>&1); then pass "$1" "$(last)"; else fail "$1" "$(last)"; fi; }
last() { echo "$found" | tail -1; }
selected() {
    mosquitto_sub -p 1883 -t edge_tvbo/lab/temperature/selected -W 240 |
        grep -m 1 "\"interval\":\($1\)" | grep -o '"interval":[0-9]*'
}
# The number of readings in the state from which the last run began:
restored() { grep -o '[0-9]* readings\? in their models' /root/log | cut -d ' ' -f 1; }
# run_until VENV INTERVALS: run the daemon until one of these intervals, a pattern, and stop it.
run_until() {
    /root/"$1"/bin/edge-tvbo run /root/config.toml 2>/root/log &
    daemon=$!
    selected "$2"
    reached=$?
    grep VmRSS /proc/$daemon/status | tr -s '\t ' ' ' >/root/rss
    kill $daemon
    wait $daemon && [ $reached = 0 ]
}

for kind in compiled jit; do
    python3 -m venv /root/venv-$kind
    check "install, $kind" "/root/venv-$kind/bin/pip install -q --disable-pip-version-check --no-index \
        --find-links /root/$kind 'edge-tvbo[metrics]' && /root/venv-$kind/bin/edge-tvbo --version"
done
check 'neither numba nor a compiler' '! command -v gcc && ! /root/venv-compiled/bin/python -c "import numba"'
sed 's/^interval = .*/interval = "1s"/; s/^reply_timeout = .*/reply_timeout = "500ms"/
    s|^dir = .*|dir = "/root/state"|' config.example.toml >config.toml
check check '/root/venv-compiled/bin/edge-tvbo check /root/config.toml'
mosquitto -p 1883 2>/dev/null &
broker=$!
until mosquitto_pub -p 1883 -t here -n 2>/dev/null; do sleep 0.2; done
while :; do
    for m in 1 2 3; do
        mosquitto_pub -p 1883 -t lab/mote-$m/temperature -m "{\"t\": 2$m.5, \"ts\": $(date +%s)}"
    done 2>/dev/null
    sleep 1
done &
sensors=$!
check '20 intervals' "run_until venv-compiled '2[0-9]' && grep -o 'kernels compiled ahead of time' log"
echo "     $(cat rss)"
check 'its state, just in time' "run_until venv-jit '[3-9][0-9]' && grep 'compiled just in time' log && grep 'state: restored' log"
echo "     $(cat rss)"
first=$(restored)
check 'and back' "run_until venv-compiled '[4-9][0-9]' && grep 'ahead of time' log && grep 'state: restored' log"
# The readings of the run before were added: it continued with the readings of its own state.
check 'the same state' '[ "$first" -gt 0 ] && [ "$(restored)" -gt "$first" ] && echo "$first readings, then $(restored)"'
kill $sensors $broker
