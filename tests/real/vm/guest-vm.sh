#!/bin/bash
# On the emulated computer: the package from its first start to a decision; after a power cut, that it goes on.
# shellcheck disable=SC2015,SC2016 # `soon` evaluates its text, and `pass` does not fail
# shellcheck source=tests/real/guest.sh
bin=/usr/bin/edge-tvbo
. "$(dirname "$0")/guest.sh"
export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
ready() { log_of | grep 'ready:' | tail -1; }
since_boot() { cut -d. -f1 /proc/uptime; }

if [ -e /root/interval ]; then
    echo "     systemd is up $(since_boot) s after the start of Linux, with the clock at $(date -u)"
    start_sensors
    before=$(cat /root/interval)
    soon 60 '[ "$(prop ActiveState)" = active ]' && pass 'up after the power cut' "$(since_boot) s after the start of Linux" ||
        fail 'up after the power cut' "$(prop ActiveState)"
    soon 60 is_online && soon 60 "[ \"\$(interval)\" -gt $before ]" &&
        pass 'goes on after the power cut' "interval $before, then $(interval); $(log_of | grep '^state:' | tail -1)" ||
        fail 'goes on after the power cut' "interval $before, then $(interval); $(log_of -n 3)"
    exit
fi

pass computer "$(tr -d '\0' </proc/device-tree/model), kernel $(uname -r), $(systemctl --version | head -1), $(nproc) cores, $(awk '/MemTotal/{print $2}' /proc/meminfo) kB"
echo "     clock: $(date -u)"
is 'enabled, not started' "$(systemctl is-enabled $u) $(prop ActiveState)" 'enabled inactive'
examples=/usr/share/doc/edge-tvbo/examples
cp $examples/config.example.toml $conf
sed -i 's|^dir = ""|dir = "/var/lib/edge-tvbo"|' $conf
cp $examples/mosquitto.conf /etc/mosquitto/conf.d/edge-tvbo.conf
install -m 640 -o mosquitto -g mosquitto $examples/acl /etc/mosquitto/acl
install -m 640 -o mosquitto -g mosquitto /dev/null /etc/mosquitto/passwords
configure
sed -i 's/^reply_timeout = .*/reply_timeout = "4s"/' $conf
start_sensors
is check "$($bin check $conf)" "$conf: good: 1 field, 3 sensors"
for start in first second; do
    began=$(date +%s%3N)
    systemctl restart $u
    status=$?
    is "$start start" "$status $(prop ActiveState)" '0 active'
    echo "     READY after $(($(date +%s%3N) - began)) ms, $(grep VmRSS "/proc/$(prop MainPID)/status" | tr -s '\t ' ' ')"
done
ready | grep -q 'ahead of time' && pass kernels "$(ready)" || fail kernels "$(ready)"
soon 30 is_online && pass online "$(metric edge_tvbo_link_online)" || fail online "$(log_of -n 3)"
soon 60 '[ "$(interval)" -ge 4 ]' && pass decides "interval $(interval)" || fail decides "$(log_of -n 3)"
is 'memory limit' "$(cat /sys/fs/cgroup/system.slice/$u/memory.max)" 536870912
echo "     memory of the unit: $(prop MemoryCurrent) bytes"
no_other_machine
now=$(date +%s)
systemctl reload $u
status=$?
soon 20 "has_logged $now 'reload: done'" && soon 20 '[ "$(prop ActiveState)" = active ]'
is reload "$status $(prop ActiveState)" '0 active'
m=$(prop MainPID)
before=$(interval)
kill -9 "$m"
soon 60 "is_replaced $m" && soon 60 "[ \"\$(interval)\" -gt $before ]" &&
    pass 'kill -9' "interval $before, then $(interval)" || fail 'kill -9' "$(log_of -n 3)"
interval >/root/interval
