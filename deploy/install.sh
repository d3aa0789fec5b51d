#!/bin/sh
# Installs edge-tvbo as a service on Debian 12 or newer, or Raspberry Pi OS of the same age; run it
# again to upgrade. deploy/README.md describes the steps before and after.
#
#   sudo deploy/install.sh [--wheels DIR] [--extras LIST] [--with-mosquitto] [--dry-run]
#   sudo deploy/install.sh uninstall [--purge] [--dry-run]
#
#   --wheels DIR      install from the wheels in DIR alone, without internet; built on a machine of
#                     the same kind by:  pip wheel -w DIR '.[metrics]'; or by  make wheel-arm64
#   --extras LIST     optional parts to install, such as metrics,dashboard (default: metrics)
#   --with-mosquitto  install a broker, too, with our rules
#   --purge           remove configuration, state and user as well
#   --dry-run         print the commands, and run none
#
# Only edge-tvbo's own kernels are compiled: every package is installed from a wheel.
set -eu
# The service user reads what is installed here, whatever the umask of root is.
umask 022
# `su` without a dash keeps the PATH of a user, which has no useradd.
PATH=$PATH:/usr/sbin:/sbin

venv=/opt/edge-tvbo
etc=/etc/edge-tvbo
state=/var/lib/edge-tvbo
cache=/var/cache/edge-tvbo
unit=/etc/systemd/system/edge-tvbo.service
user=edge-tvbo
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

action=install wheels='' extras=metrics mosquitto=no purge=no dry=no

say() { printf '%s\n' "$*"; }

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

# Print a command, and run it unless --dry-run is given.
run() {
    printf '+ %s\n' "$*"
    [ "$dry" = yes ] || "$@"
}

systemd_runs() { [ -d /run/systemd/system ]; }

# --- the parts of an installation ----------------------------------------------------------------

need_root() {
    [ "$dry" = yes ] || [ "$(id -u)" = 0 ] || fail "needs root:  sudo $0"
}

need_python() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "needs Python 3.11 or newer; Debian 12 has it:  apt install python3"
    [ "$(getconf LONG_BIT)" = 64 ] ||
        fail "needs a 64-bit system; numba has no wheels for 32 bits. Use the 64-bit Raspberry Pi OS."
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
}

apt_install() {
    command -v apt-get >/dev/null || fail "needs $1; install it with the package manager of this system"
    run apt-get update -qq || :
    run env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$1"
}

make_user() {
    id "$user" >/dev/null 2>&1 ||
        run useradd --system --user-group --home-dir "$state" --no-create-home \
            --shell /usr/sbin/nologin "$user"
    run install -d -m 755 "$etc"
    run install -d -m 700 -o "$user" -g "$user" "$state" "$cache"
}

# pip does not run after an upgrade of Debian, because the newer Python does not see the packages of the
# older one, nor in an environment that was interrupted: both need an empty environment.
make_venv() {
    "$venv/bin/pip" --version >/dev/null 2>&1 || run python3 -m venv --clear "$venv"
    run chmod -R go+rX "$venv"
}

# pip skips a wheel whose version is already installed: hence the second install.
install_wheel() {
    if [ -n "$wheels" ]; then
        wheel=$(newest "$wheels")
        set -- --no-index --find-links "$wheels"
    else
        built=$(mktemp -d)
        run "$venv/bin/pip" wheel -q --no-deps -w "$built" "$here/.."
        wheel=$(newest "$built")
        set --
    fi
    run "$venv/bin/pip" install -q --only-binary :all: "$@" "${wheel}[$extras]"
    run "$venv/bin/pip" install -q --no-deps --no-index --force-reinstall "$wheel"
    [ -z "${built:-}" ] || rm -r "$built"
}

newest() {
    found=$(find "$1" -maxdepth 1 -name 'edge_tvbo-*.whl' | sort -V | tail -n 1)
    [ -n "$found" ] || [ "$dry" = yes ] ||
        fail "there is no edge_tvbo-*.whl in $1; build it:  pip wheel -w $1 '.[$extras]'"
    printf '%s\n' "${found:-$1/edge_tvbo-*.whl}"
}

# Without config.toml, the condition of the unit is not met: neither a start nor a reboot starts the
# service before the operator has written this file.
install_config() {
    run install -m 644 "$here/config.example.toml" "$etc/config.example.toml"
    run sed -i "s|^dir = \"\"|dir = \"$state\"|" "$etc/config.example.toml"
    [ ! -e "$etc/config.toml" ] || say "  $etc/config.toml is kept"
    [ -e "$etc/mqtt.password" ] || run install -m 600 /dev/null "$etc/mqtt.password"
}

# With the user and the settings of the unit, so that the daemon finds these kernels.
warm_cache() {
    run find "$cache" -mindepth 1 -delete
    run setpriv --reuid "$user" --regid "$user" --clear-groups env -i PATH=/usr/bin:/bin \
        NUMBA_CACHE_DIR="$cache" NUMBA_CPU_NAME=generic OPENBLAS_NUM_THREADS=1 \
        "$venv/bin/edge-tvbo" precompile
}

# Run the check of $2/edge-tvbo with the user, the files, the credentials and the environment of the running daemon, the
# process $1. The environment is not passed as arguments: it can contain passwords, and every user can read arguments.
# It is not set before the user is: the daemon can change it, for example LD_PRELOAD.
check_as() {
    tr '\0' '\n' <"/proc/$1/cmdline" | grep -qxF /etc/edge-tvbo/config.toml || return 1
    # shellcheck disable=SC2002 # if a redirection fails, the status is 2, as of an invalid configuration
    cat "/proc/$1/environ" | nsenter --target "$1" --mount \
        setpriv --reuid=edge-tvbo --regid=edge-tvbo --init-groups --no-new-privs "$2/python3" -I -c '
import os, sys
variables = dict(each.split(b"=", 1) for each in sys.stdin.buffer.read().split(b"\0") if b"=" in each)
os.execve(sys.argv[1], sys.argv[1:], variables or sys.exit(1))
' "$2/edge-tvbo" check /etc/edge-tvbo/config.toml >/dev/null
}

# A running daemon has loaded nearly all of its modules; some policies import scipy at their first fit. So the old
# version can run on. That is better than no daemon, which is what a restart with an invalid configuration leaves.
# A daemon that does not run is not started: the operator may have stopped it, or still edits its file.
restart() {
    status=0
    pid=$(systemctl show --property=MainPID --value edge-tvbo) || pid=0
    if [ "${pid:-0}" != 0 ]; then
        say "+ $venv/bin/edge-tvbo check $etc/config.toml"
        [ "$dry" = yes ] || check_as "$pid" "$venv/bin" || status=$?
    fi
    [ $status != 2 ] || fail "The installed version does not accept $etc/config.toml, so the daemon was not restarted.
It runs on, but it would not start after a reboot. Fix the file, and run  systemctl restart edge-tvbo"
    [ $status = 0 ] || say "  $etc/config.toml could not be checked (status $status); the daemon is restarted"
    run systemctl try-restart edge-tvbo
}

# A service that the operator has disabled stays so: only the first installation enables it.
install_unit() {
    known=no
    [ ! -e "$unit" ] || known=yes
    run install -m 644 "$here/edge-tvbo.service" "$unit"
    if systemd_runs; then
        run systemctl daemon-reload
        [ $known = yes ] || run systemctl enable edge-tvbo
        restart
    else
        say "  systemd does not run here; later:  systemctl enable --now edge-tvbo"
    fi
}

install_mosquitto() {
    command -v mosquitto >/dev/null || [ -x /usr/sbin/mosquitto ] || apt_install mosquitto
    keep_or_install 644 "$here/mosquitto.conf" /etc/mosquitto/conf.d/edge-tvbo.conf
    keep_or_install 640 "$here/acl" /etc/mosquitto/acl
    keep_or_install 640 /dev/null /etc/mosquitto/passwords
    # mosquitto 2.0.21 and later warn if another user owns these files, or if others can read them
    run chown mosquitto:mosquitto /etc/mosquitto/acl /etc/mosquitto/passwords
    ! systemd_runs || run systemctl restart mosquitto
}

keep_or_install() {
    if [ -e "$3" ]; then say "  $3 is kept"; else run install -m "$1" "$2" "$3"; fi
}

next_steps() {
    say ''
    if [ "$mosquitto" = yes ]; then
        say "Give edge-tvbo, and each sensor, a login:"
        say "    mosquitto_passwd /etc/mosquitto/passwords edge-tvbo && systemctl restart mosquitto"
        say "and write the first password to $etc/mqtt.password. /etc/mosquitto/acl has the rules for the"
        say "topics of the example; for other topics, change them, as deploy/README.md says."
    fi
    if systemd_runs && systemctl is-active --quiet edge-tvbo; then
        say "Upgraded. To see its state:  systemctl status edge-tvbo"
    else
        say "Installed. Next:"
        [ -e "$etc/config.toml" ] || say "    cp $etc/config.example.toml $etc/config.toml"
        say "    nano $etc/config.toml      # which sensors, where, how often"
        say "    $venv/bin/edge-tvbo check $etc/config.toml && systemctl start edge-tvbo"
    fi
}

# --- uninstall ----------------------------------------------------------------------------------

uninstall() {
    ! systemd_runs || run systemctl disable --now edge-tvbo || :
    run rm -rf "$unit" "$venv" "$cache"
    ! systemd_runs || run systemctl daemon-reload
    if [ "$purge" = yes ]; then
        run rm -rf "$etc" "$state"
        ! id "$user" >/dev/null 2>&1 || run userdel "$user"
    else
        say "Kept: $etc, $state and the user $user; --purge removes them, too."
    fi
    say "A broker and the files in /etc/mosquitto are kept."
}

# --- the command line ---------------------------------------------------------------------------

while [ $# -gt 0 ]; do
    case $1 in
    uninstall) action=uninstall ;;
    --wheels)
        [ -d "${2:-}" ] || fail "--wheels needs a directory of wheels, not '${2:-}'"
        wheels=$(CDPATH='' cd -- "$2" && pwd)
        shift
        ;;
    --extras)
        [ -n "${2:-}" ] || fail "--extras needs names, such as metrics,dashboard"
        extras=$2
        shift
        ;;
    --with-mosquitto) mosquitto=yes ;;
    --purge) purge=yes ;;
    --dry-run) dry=yes ;;
    -h | --help)
        sed -n '2,15s/^# \{0,1\}//p' "$0"
        exit
        ;;
    *) fail "unknown argument '$1'; see $0 --help" ;;
    esac
    shift
done

cd /
need_root
if [ "$action" = uninstall ]; then
    uninstall
    exit
fi
[ "$purge" = no ] || fail "--purge is an option of uninstall"
need_python
make_user
make_venv
install_wheel
install_config
warm_cache
[ "$mosquitto" = no ] || install_mosquitto
install_unit
next_steps
