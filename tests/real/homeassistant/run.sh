#!/bin/sh
# make test-homeassistant: real versions of Home Assistant beside a real broker and a real daemon.
# Needs root. VERSIONS="2026.11.0" tests one version; EDGE_TVBO_REAL is where the chroots are kept.
#
# Prints one line PASS or FAIL for each check and the counts of each version; fails unless all passed.
set -eu
here=$(realpath "$(dirname "$0")")
project=$(realpath "$here/../../..")
state=${EDGE_TVBO_REAL:-/var/tmp/edge-tvbo-real}/homeassistant
PATH=$PATH:/usr/sbin:/sbin

skip() {
    echo "SKIP $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

[ "$(id -u)" = 0 ] || skip "needs root:  sudo make test-homeassistant"
command -v apt-get >/dev/null || skip "needs Debian's apt-get and debootstrap"
unshare --net --mount true 2>/dev/null || skip "needs the right to make network namespaces"
apt-get update -qq -o APT::Update::Error-Mode=any >/dev/null 2>&1 ||
    skip "needs Debian's package mirrors and PyPI, which cannot be reached"
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=300 debootstrap mosquitto iproute2 ca-certificates >/dev/null

mkdir -p "$state"
log=$state/checks.log
: >"$log"
for version in ${VERSIONS:-2026.11.0 2025.10.4}; do
    chroot=$("$here/setup.sh" "$state" "$version") || {
        echo "FAIL $version: it cannot be installed" | tee -a "$log"
        continue
    }
    # Only loopback, so that all ports are free and Home Assistant reaches no other host; the mounts end too.
    unshare --net --mount sh -euc '
        ip link set lo up
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        exec "$2" "$3/checks.py" "$1" "$4"' - "$chroot" "${PYTHON:-$project/.venv/bin/python}" \
        "$here" "$version" | tee -a "$log"
    grep -q "^END $version$" "$log" || echo "FAIL $version: the test ended early" | tee -a "$log"
done
passed=$(grep -c '^PASS ' "$log") || :
failed=$(grep -c '^FAIL ' "$log") || :
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
