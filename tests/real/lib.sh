# shellcheck shell=sh
# Parts that the tests on real systems share; each test reads this file, see README.md.
#
# A test prints one line PASS or FAIL for each check, SKIP for a check that this machine cannot do,
# and closes with the counts. `verdict` fails if the number of checks is not the expected one, so that
# a test that ends early cannot pass.

project=$(realpath "$(dirname "$0")/../../..")
state=${EDGE_TVBO_REAL:-/var/tmp/edge-tvbo-real}
export DEBIAN_FRONTEND=noninteractive

say() { printf '[%s] %s\n' "$(date +%T)" "$*" >&2; }

# End a test that cannot run here.
skip_all() {
    echo "SKIP $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

need_root() { [ "$(id -u)" = 0 ] || skip_all "needs root:  sudo $0"; }

# need COMMAND PACKAGE...: install Debian's packages unless the command is there.
need() {
    command=$1
    shift
    command -v "$command" >/dev/null && return 0
    command -v apt-get >/dev/null || skip_all "needs $command, and there is no apt-get"
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends \
        -o DPkg::Lock::Timeout=300 "$@" >/dev/null; } || skip_all "$* cannot be installed"
}

# verdict EXPECTED: count the checks in $log, which have been printed already.
# shellcheck disable=SC2154 # each test sets log
verdict() {
    passed=$(grep -c '^PASS ' "$log") || :
    failed=$(grep -c '^FAIL ' "$log") || :
    skipped=$(grep -c '^SKIP ' "$log") || :
    if [ $((passed + failed + skipped)) != "$1" ]; then
        echo "FAIL end | $((passed + failed + skipped)) checks ran instead of $1"
        failed=$((failed + 1))
    fi
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}

# --- a Debian system under systemd-nspawn -----------------------------------------------------------

# machine_root SUITE: create $state/SUITE, a Debian with systemd, mosquitto and Python, if it is missing.
machine_root() {
    [ ! -e "$state/$1" ] || return 0
    need mmdebstrap mmdebstrap
    say "creating a root of Debian $1"
    mkdir -p "$state"
    rm -rf --one-file-system "$state/$1.new"
    packages=systemd-sysv,udev,dbus,kmod,procps,iproute2,curl,libstdc++6,python3,python3-venv
    packages=$packages,mosquitto,mosquitto-clients,ca-certificates,tzdata,openssl,faketime,adduser
    # A mirror that is not renewed daily has an expired list of forky; its signature is checked.
    expired=
    [ "$1" != forky ] || expired='--aptopt=Acquire::Check-Valid-Until false'
    mmdebstrap --quiet --mode=root --variant=apt ${expired:+"$expired"} --include="$packages" "$1" "$state/$1.new"
    mv "$state/$1.new" "$state/$1"
}

# machine SUITE COPY: make a copy of the root at $root, which the test may change.
machine() {
    machine_root "$1"
    root=$2
    rm -rf --one-file-system "$root"
    cp -a "$state/$1" "$root"
    : >"$root/etc/machine-id"
    echo gateway >"$root/etc/hostname"
    printf '127.0.0.1 localhost\n127.0.1.1 gateway\n::1 localhost\n' >"$root/etc/hosts"
    mkdir -p "$root/etc/systemd/journald.conf.d"
    printf '[Journal]\nStorage=persistent\n' >"$root/etc/systemd/journald.conf.d/keep.conf"
}

# Start $root with systemd as process 1, and a network with its own loopback alone; wait for it.
# On a host whose process 1 is not systemd there is no machined to register with; on a host with
# version 1 of control groups, systemd 257 and newer must be told to go on.
boot() {
    v1=
    [ -e /sys/fs/cgroup/cgroup.controllers ] ||
        v1='systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1'
    # shellcheck disable=SC2086 # two words
    setsid systemd-nspawn -q -D "$root" --machine="edge-tvbo-$$" --register=no --keep-unit \
        --private-network --boot --kill-signal=SIGRTMIN+3 $v1 </dev/null >"$root.console" 2>&1 &
    nspawn=$!
    tries=0
    until init=$(ps -o pid= --ppid $nspawn | tr -d ' ' | head -1) &&
        [ "$(cat "/proc/$init/comm" 2>/dev/null)" = systemd ] &&
        inside 'systemctl -q is-active multi-user.target' 2>/dev/null; do
        tries=$((tries + 1))
        if [ $tries -gt 240 ] || ! kill -0 $nspawn 2>/dev/null; then
            tail -5 "$root.console" >&2
            say "the system did not start"
            return 1
        fi
        sleep 0.5
    done
}

# inside COMMAND...: run a shell command in the system, as root.
inside() {
    nsenter -t "$init" -m -u -i -n -p -C -r -w env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        HOME=/root LANG=C.UTF-8 sh -c "$*"
}

# Cut the power: no process of the system can do anything more.
power_cut() {
    kill -KILL "$init" "$nspawn" || :
    wait "$nspawn" 2>/dev/null || :
}

# Wait until the system has ended by itself.
ended() {
    tries=0
    while kill -0 "$nspawn" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 240 ] || return 1
        sleep 0.5
    done
}

# older_package PACKAGE OLDER: the same package under the number 0.1.0, as no package of 0.1 was ever made.
older_package() {
    rm -rf "$2.d"
    dpkg-deb -R "$1" "$2.d"
    sed -i 's/^Version: [^-]*/Version: 0.1.0/' "$2.d/DEBIAN/control"
    dpkg-deb --root-owner-group -Zgzip -z1 -b "$2.d" "$2" >/dev/null
    rm -rf "$2.d"
}

# wheels SUITE DIR [X.Y]: the wheels that install.sh needs without internet, for the Python of SUITE or for X.Y.
wheels() {
    case ${3:-$1} in
    bookworm) python=3.11 ;;
    trixie) python=3.13 ;;
    forky) python=3.14 ;;
    *) python=$3 ;;
    esac
    rm -rf "$2"
    mkdir -p "$2"
    tag=cp$(echo "$python" | tr -d .)
    python3 -m pip wheel -q --disable-pip-version-check --no-deps -w "$2" "$project"
    python3 -m pip download -q --only-binary :all: --python-version "$python" --implementation cp \
        --abi "$tag" --abi abi3 --abi none --platform manylinux_2_28_x86_64 \
        --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 \
        --platform manylinux2014_x86_64 -d "$2" "$(echo "$2"/edge_tvbo-*.whl)[metrics]"
}
