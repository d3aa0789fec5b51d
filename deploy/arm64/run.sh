#!/bin/sh
# Runs a command under an emulated 64-bit Raspberry Pi OS, with edge-tvbo installed as on a gateway:
# a Debian root for arm64, and qemu in user mode. README.md says what that shows, and what not.
#
#   sudo deploy/arm64/run.sh [--suite NAME] [--board NAME] [--mem MIB] [--state DIR]
#                            [--compiler | --wheels DIR] COMMAND...
#
#   --suite NAME  bookworm, which has Python 3.11 (default), trixie (3.13) or forky (3.14)
#   --board NAME  pi3 (Cortex-A53), pi4 (Cortex-A72; default) or pi5 (Cortex-A76, pages of 16 KiB)
#   --mem MIB     memory limit, page cache included; 150 MiB are added for qemu itself
#   --state DIR   where the roots are kept (default: /tmp/edge-tvbo-arm64), 1 GiB each
#   --compiler    use a separate root with Debian's C compiler, which no gateway needs
#   --wheels DIR  use a separate root with the wheels of that folder of this checkout, without numba
#
# The first run of a suite takes some minutes; so does the first after a change of the package.
# This checkout is the working directory; what the command writes there is discarded, except in dist/.
set -eu

venv=/opt/edge-tvbo
qemu=150
packages=base-files,base-passwd,ca-certificates,coreutils,dash,findutils,grep,libc-bin,libstdc++6
packages=$packages,mosquitto,mosquitto-clients,passwd,procps,python3-venv,sed,tzdata,util-linux
compiler=g++,gcc,libc6-dev,python3-dev
binfmt=/proc/sys/fs/binfmt_misc
interpreter=/usr/lib/binfmt.d/qemu-aarch64.conf
project=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)

suite=bookworm board=pi4 mem='' state=/tmp/edge-tvbo-arm64 kind='' wheels=''

fail() {
    printf 'run.sh: %s\n' "$*" >&2
    exit 1
}

say() { printf '[arm64] %s\n' "$*" >&2; }

# --- the host ----------------------------------------------------------------------------------

need_tools() {
    if command -v mmdebstrap >/dev/null && command -v arch-test >/dev/null && [ -e $interpreter ]; then return 0; fi
    command -v apt-get >/dev/null || fail "needs arch-test, mmdebstrap and qemu-user-static, of Debian"
    say "installing arch-test, mmdebstrap and qemu-user-static"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        arch-test mmdebstrap qemu-user-static >/dev/null
}

# Register qemu with the kernel for programs for arm64; systemd does that where it runs.
need_binfmt() {
    [ -e $binfmt/register ] || mount -t binfmt_misc none $binfmt
    [ -e $binfmt/qemu-aarch64 ] ||
        tr -d '\n' <$interpreter >$binfmt/register
}

# Write the /proc/cpuinfo of a Pi, from which numba takes the name of the processor.
describe_board() {
    case $board in
    pi3) part=0xd03 QEMU_CPU=cortex-a53 QEMU_PAGESIZE=4096 ;;
    pi4) part=0xd08 QEMU_CPU=cortex-a72 QEMU_PAGESIZE=4096 ;;
    pi5) part=0xd0b QEMU_CPU=cortex-a76 QEMU_PAGESIZE=16384 ;;
    *) fail "--board is '$board'; it can be pi3, pi4 or pi5" ;;
    esac
    export QEMU_CPU QEMU_PAGESIZE
    for core in 0 1 2 3; do
        printf 'processor\t: %s\nFeatures\t: fp asimd evtstrm crc32 cpuid\n' $core
        printf 'CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: %s\n\n' $part
    done >"$state/$board.cpuinfo"
}

# --- the root -----------------------------------------------------------------------------------

# Unpack the packages without configuring them: 20 s instead of 5 min. Do the missing steps.
make_root() {
    root=$state/$suite$kind
    [ ! -e "$root" ] || return 0
    [ "$kind" != -compiler ] || packages=$packages,$compiler
    say "creating a root of $suite$kind"
    rm -rf --one-file-system "$root.new"
    # A mirror that is not renewed daily has an expired list of forky; its signature is checked.
    expired=
    [ "$suite" != forky ] || expired='--aptopt=Acquire::Check-Valid-Until false'
    mmdebstrap --quiet --mode=root --variant=extract --architectures=arm64 --include="$packages" \
        ${expired:+"$expired"} --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr "$suite" "$root.new"
    for list in passwd group; do
        cp "$root.new/usr/share/base-passwd/$list.master" "$root.new/etc/$list"
    done
    cp /etc/hosts /etc/resolv.conf "$root.new/etc/"
    (cd "$root.new" && mkdir -p dev etc/ssl/certs mnt proc project root sys tmp)
    cp /etc/ssl/certs/ca-certificates.crt "$root.new/etc/ssl/certs/"
    chroot "$root.new" sh -ec 'ldconfig && useradd --system mosquitto'
    [ "$kind" != -compiler ] || ln -s gcc "$root.new/usr/bin/cc" # else an alternative
    mv "$root.new" "$root"
}

# Run a command inside, in separate namespaces for processes and mounts, which end with it.
# shellcheck disable=SC2016 # the inner shell expands the quoted text
inside() {
    unshare --mount --pid --fork --kill-child sh -euc '
        root=$1 project=$2 cpuinfo=$3
        shift 3
        mount --rbind /dev "$root/dev"
        mount --rbind /sys "$root/sys"
        mount -t proc none "$root/proc"
        mount --bind "$cpuinfo" "$root/proc/cpuinfo"
        mount -t tmpfs none "$root/tmp"
        mount -t tmpfs none "$root/mnt"
        mkdir "$root/mnt/upper" "$root/mnt/work"
        mount -t overlay none "$root/project" \
            -o lowerdir="$project",upperdir="$root/mnt/upper",workdir="$root/mnt/work"
        mount --bind "$project/dist" "$root/project/dist"
        chroot "$root" env -i "$@"
    ' sh "$root" "$project" "$state/$board.cpuinfo" \
        HOME=/root LANG=C.UTF-8 PATH=$venv/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        QEMU_CPU="$QEMU_CPU" QEMU_PAGESIZE="$QEMU_PAGESIZE" \
        NUMBA_CACHE_DIR=/var/cache/edge-tvbo NUMBA_CPU_NAME=generic OPENBLAS_NUM_THREADS=1 \
        PIP_NO_COMPILE=1 PYTHONSAFEPATH=1 \
        sh -euc 'cd /project && exec "$@"' sh "$@"
}

# Install as on a gateway, and the packages for the tests. A root with a compiler is no gateway: there, installing
# would compile all kernels just in time, for a quarter of an hour.
install_project() {
    # shellcheck disable=SC2086 # the paths are several words
    sources=$(cd "$project" && find ${wheels:-edge_tvbo adapters pyproject.toml} deploy/install.sh \
        -type f ! -name '*.pyc' -exec sha256sum {} + | sort | sha256sum)
    [ "$sources" != "$(cat "$root/installed" 2>/dev/null)" ] || return 0
    say "installing edge-tvbo on $suite$kind, which takes minutes"
    case $kind in
    -compiler)
        inside python3 -m venv $venv >&2
        inside $venv/bin/pip install -q --only-binary :all: . >&2
        ;;
    *) inside deploy/install.sh ${wheels:+--wheels "$wheels"} >&2 ;;
    esac
    [ -n "$wheels" ] || inside $venv/bin/pip install -q --only-binary :all: hypothesis pytest pytest-timeout >&2
    echo "$sources" >"$root/installed"
}

# --- memory limit -------------------------------------------------------------------------------

# Create a control group with this many MiB, and qemu's in addition.
limit_memory() {
    bytes=$((($1 + qemu) * 1048576))
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        group=/sys/fs/cgroup/edge-tvbo-$$ limit=memory.max peak=memory.peak
    else
        own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
        group=/sys/fs/cgroup/memory$own/edge-tvbo-$$
        limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes
    fi
    { mkdir "$group" && echo $bytes >"$group/$limit"; } ||
        fail "--mem needs a memory control group, and none can be created in ${group%/*}"
}

# --- the command line ---------------------------------------------------------------------------

while [ $# -gt 0 ]; do
    case $1 in
    --suite) suite=${2:-} ;;
    --board) board=${2:-} ;;
    --mem) mem=${2:-} ;;
    --state) state=${2:-} ;;
    --wheels) wheels=${2:-} kind=-wheels ;;
    --compiler)
        kind=-compiler
        shift
        continue
        ;;
    -h | --help)
        sed -n '2,16s/^# \{0,1\}//p' "$0"
        exit
        ;;
    -*) fail "unknown option '$1'; see $0 --help" ;;
    *) break ;;
    esac
    [ $# -gt 1 ] || fail "$1 needs a value"
    shift 2
done

[ $# -gt 0 ] || fail "needs a command, such as  $0 edge-tvbo --help"
case $suite in
bookworm | trixie | forky) ;;
*) fail "--suite is '$suite'; it can be bookworm, trixie or forky" ;;
esac
[ "$(id -u)" = 0 ] || fail "needs root, for chroot and mounts:  sudo $0"
mkdir -p "$state"
[ -d "$project/dist" ] || install -d -o "$(stat -c %u "$project")" "$project/dist"
exec 9>"$state/$suite$kind.lock"
flock 9 # a second run waits here until the first has set things up
need_tools
need_binfmt
describe_board
make_root
install_project
exec 9>&-

[ -n "$mem" ] || { inside "$@"; exit; }
limit_memory "$mem"
status=0
(echo 0 >"$group/cgroup.procs" && inside "$@") || status=$?
say "at most $(($(cat "$group/$peak") / 1048576)) MiB of $((mem + qemu)) MiB were in use"
rmdir "$group" || :
exit $status
