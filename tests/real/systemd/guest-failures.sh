#!/bin/bash
# What goes wrong on a gateway: kill -9, a daemon that hangs, a late broker, a wrong clock, a full disk.
# shellcheck source=tests/real/guest.sh
# shellcheck disable=SC2015,SC2016 # `soon` evaluates its text, and `pass` does not fail
. "$(dirname "$0")/guest.sh"
start_sensors

# --- kill -9 -----------------------------------------------------------------------------------------
soon 60 '[ "$(interval)" -gt 3 ]'
before=$(interval)
m=$(prop MainPID)
kill -9 "$m"
soon 60 "is_replaced $m" && soon 30 is_online && soon 60 "[ \"\$(interval)\" -gt $before ]" &&
    pass 'kill -9' "interval $before, then $(interval); $(log_of | grep '^state:' | tail -1)" ||
    fail 'kill -9' "interval $before, then $(interval); $(log_of -n 3)"
boot=$(cat /proc/sys/kernel/random/boot_id)
document='import sys, zlib; sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read()[52:]))'
is 'the state has the boot id' \
    "$(python3 -c "$document" </var/lib/edge-tvbo/lab.state | grep -ao -m 1 "$boot" | head -1)" "$boot"

# --- a daemon that hangs; the unit's two minutes are shortened -----------------------------------------
mkdir -p /run/systemd/system/$u.d
printf '[Service]\nWatchdogSec=%ss\n' $((10 * SLOW)) >/run/systemd/system/$u.d/watchdog.conf
systemctl daemon-reload
systemctl restart $u
m=$(prop MainPID)
sleep $((22 * SLOW)) # two watchdog times
is 'the watchdog is fed' "$(prop ActiveState) $(prop NRestarts) $(prop MainPID)" "active 0 $m"
kill -STOP "$m"
began=$SECONDS
soon 60 "is_replaced $m" && pass watchdog "replaced after $((SECONDS - began)) s" ||
    fail watchdog "$(prop ActiveState)"
rm -r /run/systemd/system/$u.d
systemctl daemon-reload

# --- stop, and a broker that starts later ----------------------------------------------------------------
systemctl restart $u
soon 30 is_online
began=$(date +%s%3N)
systemctl stop $u
is stop "$(prop Result) $(prop ExecMainStatus)" 'success 0'
echo "     stopped in $(($(date +%s%3N) - began)) ms"
is 'says that it is offline' "$(retained edge_tvbo/lab/status | grep -o 'offline\|online')" offline
systemctl stop mosquitto
systemctl start $u
status=$?
systemctl start mosquitto
soon 90 is_online && [ $status = 0 ] && pass 'late broker' "start $status, then online" ||
    fail 'late broker' "start $status"

# --- a clock in 1970 until the network is there ----------------------------------------------------------
if library=$(find /usr/lib -name libfaketime.so.1 | head -1) && [ -n "$library" ]; then
    printf '@1970-01-01 00:05:00\n' >/run/clock
    chmod 644 /run/clock
    mkdir -p /run/systemd/system/$u.d
    printf '[Service]\nEnvironment=LD_PRELOAD=%s FAKETIME_TIMESTAMP_FILE=/run/clock FAKETIME_NO_CACHE=1 DONT_FAKE_MONOTONIC=1 FAKETIME_DISABLE_SHM=1\n' \
        "$library" >/run/systemd/system/$u.d/clock.conf
    systemctl daemon-reload
    systemctl restart $u
    status=$?
    before=$(interval)
    soon 30 is_online
    in_1970=$(log_of | grep -i 'clock\|1970' | tail -1)
    printf '+0\n' >/run/clock
    soon 60 "[ \"\$(interval)\" -gt $((before + 1)) ]" && is_online && [ $status = 0 ] &&
        pass '1970, then today' "start $status; interval $before, then $(interval); $in_1970" ||
        fail '1970, then today' "start $status; $(log_of -n 3)"
    rm -r /run/systemd/system/$u.d
    systemctl daemon-reload
    systemctl restart $u
else
    skip '1970, then today' 'Debian has no libfaketime here'
fi

# --- a full disk: the state on a file system of 2 MiB ---------------------------------------------------
systemctl stop $u
cp -a /var/lib/edge-tvbo /root/state
mount -t tmpfs -o size=2M,mode=700,uid="$(id -u edge-tvbo)",gid="$(id -g edge-tvbo)" none /var/lib/edge-tvbo
cp -a /root/state/. /var/lib/edge-tvbo/
systemctl start $u
soon 30 is_online
dd if=/dev/zero of=/var/lib/edge-tvbo/filler bs=4k >/dev/null 2>&1
now=$(date +%s)
systemctl kill -s USR1 $u
before=$(interval)
soon 40 "has_logged $now 'No space left\|disk.*full'" && soon 40 "[ \"\$(interval)\" -gt $before ]" &&
    pass 'full disk' "$(journalctl -u $u -o cat --since "@$now" | grep -i -m 1 'No space left\|disk.*full')" ||
    fail 'full disk' "$(prop ActiveState), interval $before, then $(interval); $(log_of -n 3)"
rm /var/lib/edge-tvbo/filler
now=$(date +%s)
soon 60 'find /var/lib/edge-tvbo -newermt "@'"$now"'" -type f | grep -q .' &&
    pass 'space again' "$(find /var/lib/edge-tvbo -newermt "@$now" -type f -printf '%f ')" ||
    fail 'space again' "$(log_of -n 3)"
systemctl stop $u
umount /var/lib/edge-tvbo
systemctl start $u
soon 30 is_online
soon 40 '[ "$(interval)" -ge 1 ]'
interval >/root/interval
echo "     disk: $(du -sh /var/lib/edge-tvbo /var/cache/edge-tvbo | tr '\n\t' '; ')"
