#!/bin/bash
# The daemon as a service: start, hardening, credentials, reload and exit statuses.
# shellcheck source=tests/real/guest.sh
# shellcheck disable=SC2015,SC2016 # `soon` evaluates its text, and `pass` does not fail
. "$(dirname "$0")/guest.sh"

what="$(systemctl --version | head -1), kernel $(uname -r), $(systemd-detect-virt)"
is "process 1 is systemd ($what)" "$(cat /proc/1/comm)" systemd
systemctl start $u
is 'enabled, not started' "$(systemctl is-enabled $u) $(prop ActiveState) $(prop ConditionResult)" \
    'enabled inactive no'
cp /etc/edge-tvbo/config.example.toml $conf
configure
start_sensors
is check "$($bin check $conf)" "$conf: good: 1 field, 3 sensors"

began=$(date +%s%3N)
systemctl restart $u
status=$?
took=$(($(date +%s%3N) - began))
m=$(prop MainPID)
is start "$status $(prop ActiveState)/$(prop SubState)" '0 active/running'
echo "     READY after $took ms, $(grep VmRSS "/proc/$m/status" | tr -s '\t ' ' ')"
if log_of | grep -q 'compiled [0-9]* kernels in'; then
    fail cache 'it compiled kernels again'
else
    pass cache "$(log_of | grep 'ready:' | tail -1)"
fi
soon 30 is_online && pass online "$(metric edge_tvbo_link_online)" || fail online "$(log_of -n 3)"
soon 30 '[ "$(interval)" -ge 1 ]' && pass decides "interval $(interval)" || fail decides "$(log_of -n 3)"

# --- hardening and credentials ---------------------------------------------------------------------
exposure=$(systemd-analyze security $u --no-pager | sed -n 's/.*: \([0-9.]*\) [A-Z]*.*/\1/p' | tail -1)
awk "BEGIN {exit !($exposure < 1.0)}" && pass exposure "$exposure" || fail exposure "$exposure"
is 'no capabilities' "$(awk '/CapEff|CapBnd/{printf $2" "}' "/proc/$m/status")" \
    '0000000000000000 0000000000000000 '
is user "$(stat -c %U "/proc/$m")" edge-tvbo
is 'system-call filter' "$(awk '/^Seccomp:/{print $2}' "/proc/$m/status")" 2
is credentials "$(stat -c '%a %U' /etc/edge-tvbo/mqtt.password); $(nsenter -t "$m" -m \
    cat /run/credentials/$u/mqtt.password)" '600 root; pw-edge-tvbo'
nsenter -t "$m" -m sh -c 'touch /etc/x || touch /opt/x || touch /var/lib/x' 2>/dev/null &&
    fail 'read-only system' 'it can write outside its state' || pass 'read-only system' '/etc /opt /var/lib'
no_other_machine

# --- reload ----------------------------------------------------------------------------------------
now=$(date +%s)
sed -i 's/^reconnect = .*/reconnect = { min = "1s", max = "32s" }/' $conf
systemctl reload $u
status=$?
soon 20 "has_logged $now 'reload: done'" && soon 20 '[ "$(prop ActiveState)" = active ]'
is reload "$status $(is_replaced "$m" || echo same process) $(prop ActiveState)" '0 same process active'
echo "     $(log_of --since "@$now" | grep 'reload: ')"
sed -i 's/^reconnect = .*/reconnect = { min = "1s", max = "soon" }/' $conf
systemctl reload $u 2>/dev/null
status=$?
is 'reload of an invalid configuration fails' \
    "$status $(is_replaced "$m" || echo same process) $(prop ActiveState)" '1 same process active'
echo "     $(log_of -n 20 | grep 'reconnect')"

# --- upgrade to a version that rejects the configuration --------------------------------------------
sh /root/edge-tvbo/deploy/install.sh --wheels /root/wheels >/root/rejected 2>&1
status=$?
is 'upgrade with an invalid configuration' \
    "$status $(is_replaced "$m" || echo same process) $(grep -c 'reconnect.*E105\|not restarted' /root/rejected)" \
    '1 same process 2'

# --- an invalid configuration at the start ------------------------------------------------------------
systemctl restart $u 2>/dev/null
soon 30 '[ "$(prop ActiveState)" = failed ]'
sleep $((7 * SLOW)) # RestartSec is 5 s: a restart would have come
is 'no restart after status 78' \
    "$(prop ActiveState) $(prop Result) $(prop ExecMainStatus) $(prop NRestarts)" 'failed exit-code 78 0'
sed -i 's/^reconnect = .*/reconnect = { min = "1s", max = "60s" }/' $conf
systemctl start $u
soon 30 is_online && pass 'starts when it is fixed' "$(prop ActiveState)" || fail 'starts when it is fixed' "$(log_of -n 3)"
