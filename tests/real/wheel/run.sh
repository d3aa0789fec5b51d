#!/bin/sh
# The wheel with compiled kernels in a clean Debian without a compiler and without a network: install, check, 20
# intervals with mosquitto, and the exchange of its state with the wheel without kernels.
#
#   sudo tests/real/wheel/run.sh bookworm | trixie | forky      for the wheels in dist/SUITE-amd64
#   sudo tests/real/wheel/run.sh bookworm FOLDER                with the Python in FOLDER, as deploy/debian/wheels.sh
set -eu
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/real/lib.sh
. "$here/../lib.sh"

suite=${1:-bookworm} home=${2:-}
name=${home:+-$(basename "$home")}
checks=8
need_root
folder=$project/dist/$suite-$(dpkg --print-architecture)$name
[ -d "$folder" ] || skip_all "there is no $folder:  deploy/debian/wheels.sh"
log=$state/wheel-$suite$name.log

machine "$suite" "$state/wheel-$suite"
say "downloading numba and scipy for the wheel without kernels"
if [ -n "$home" ]; then
    mkdir -p "$root$home"
    cp -a "$home/." "$root$home/"
fi
wheels "$suite" "$root/root/jit" "${home:+"$("$home/bin/python3" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"}"
cp -r "$folder" "$root/root/compiled"
cp "$project/deploy/config.example.toml" "$here/guest-wheel.sh" "$root/root/"
# shellcheck disable=SC2016 # the inner shell expands it
unshare --net --mount --pid --fork --kill-child --mount-proc="$root/proc" sh -c \
    'ip link set lo up; exec chroot "$0" env -i HOME=/root LANG=C.UTF-8 OPENBLAS_NUM_THREADS=1 \
    PATH="$1/usr/sbin:/usr/bin:/sbin:/bin" sh /root/guest-wheel.sh' "$root" "${home:+$home/bin:}" 2>"$log.errors" | tee "$log" || :
verdict $checks
