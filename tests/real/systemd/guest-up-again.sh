#!/bin/bash
# After a reboot or a power cut, the name of the check: the service is up by itself and counts on.
# shellcheck source=tests/real/guest.sh
# shellcheck disable=SC2015,SC2016 # `soon` evaluates its text, and `pass` does not fail
. "$(dirname "$0")/guest.sh"
start_sensors
before=$(cat /root/interval)
soon 60 is_online && soon 60 "[ \"\$(interval)\" -gt $before ]" &&
    pass "$1" "interval $before, then $(interval); $(log_of | grep '^state:' | tail -1)" ||
    fail "$1" "$(prop ActiveState), interval $before, then $(interval); $(log_of -n 3)"
interval >/root/interval
sync
