#!/bin/sh
# install.sh and the unit under a real systemd, as process 1 of a Debian container without a network.
# Not shown: MemoryMax and TasksMax, which need control groups of version 2; a real loss of power, as
# the page cache survives here.
#
#   sudo tests/real/systemd/run.sh bookworm | trixie
set -eu
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/real/lib.sh
. "$here/../lib.sh"

suite=${1:-bookworm}
checks=32
need_root
need systemd-nspawn systemd-container
log=$state/systemd-$suite.log
mkdir -p "$state"

machine "$suite" "$state/systemd-$suite"
say "downloading wheels"
wheels "$suite" "$root/root/wheels"
mkdir "$root/root/edge-tvbo"
cp -r "$project/deploy" "$root/root/edge-tvbo/"
cp "$here"/../guest.sh "$here"/guest-*.sh "$root/root/"
trap 'kill -KILL "$init" "$nspawn" 2>/dev/null || :' EXIT
boot

# guest SCRIPT: run a script of checks inside, and print its lines; it may not end the test.
guest() { inside "bash /root/$1" 2>>"$log.errors" | tee -a "$log" || :; }

: >"$log"
: >"$log.errors"
say "install.sh --wheels --with-mosquitto"
if inside 'cd /root/edge-tvbo && sh deploy/install.sh --wheels /root/wheels --with-mosquitto' \
    >"$log.install" 2>&1; then
    echo 'PASS install.sh | without internet' | tee -a "$log"
else
    tail -3 "$log.install"
    echo 'FAIL install.sh' | tee -a "$log"
fi
guest guest-daemon.sh
guest guest-failures.sh
say "reboot"
inside 'systemctl reboot' || :
ended && boot && guest 'guest-up-again.sh reboot'
say "power cut"
power_cut
boot && guest "guest-up-again.sh 'power cut'"
verdict $checks
