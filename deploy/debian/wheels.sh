#!/bin/sh
# Builds the wheel with compiled kernels for the Python of a Debian suite, and puts it into dist/SUITE-ARCH with
# the wheels that it depends on: in a clean root with Debian's compiler, emulated for arm64.
#
#   sudo deploy/debian/wheels.sh SUITE ARCH      such as  bookworm amd64,  trixie arm64  or  forky amd64
#
# For a Python that no suite has, such as 3.12, name the folder of one that was compiled for the suite; the wheels
# are then in dist/SUITE-ARCH-FOLDER:
#
#   sudo deploy/debian/wheels.sh bookworm amd64 ~/.pyenv/versions/3.12.1
set -eu

suite=$1 arch=$2 home=${3:-}
project=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
root=${EDGE_TVBO_REAL:-/var/tmp/edge-tvbo-real}/build-$suite
name=${home:+-$(basename "$home")}
out=$project/dist/$suite-$arch$name

if [ "$arch" != "$(dpkg --print-architecture)" ]; then
    [ "$arch" = arm64 ] || { echo "wheels.sh: $arch can be amd64 on a PC, or arm64" >&2; exit 1; }
    exec "$project/deploy/arm64/run.sh" --suite "$suite" \
        --compiler deploy/arm64/wheel.sh "dist/$suite-arm64"
fi
command -v mmdebstrap >/dev/null || apt-get install -y -qq --no-install-recommends mmdebstrap
if [ ! -e "$root" ]; then
    mkdir -p "$(dirname "$root")"
    rm -rf --one-file-system "$root.new"
    # A mirror that is not renewed daily has an expired list of forky; its signature is checked.
    expired=
    [ "$suite" != forky ] || expired='--aptopt=Acquire::Check-Valid-Until false'
    mmdebstrap --quiet --mode=root --variant=apt ${expired:+"$expired"} \
        --include=ca-certificates,g++,gcc,libc6-dev,libstdc++6,python3-dev,python3-venv \
        "$suite" "$root.new"
    cp /etc/ssl/certs/ca-certificates.crt "$root.new/etc/ssl/certs/"
    mv "$root.new" "$root"
fi
cp /etc/hosts /etc/resolv.conf "$root/etc/"
rm -rf "$root/project"
mkdir "$root/project"
cd "$project"
cp -r edge_tvbo adapters deploy pyproject.toml README.md LICENSE "$root/project/"
find "$root/project" -name '*.so' -delete
if [ -n "$home" ]; then
    rm -rf "$root$home"
    mkdir -p "$root$home"
    cp -a "$home/." "$root$home/"
fi
unshare --mount --pid --fork --mount-proc="$root/proc" chroot "$root" \
    env -i HOME=/root LANG=C.UTF-8 PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    VENV="/venv$name" PYTHON="${home:+$home/bin/}python3" \
    PATH="/venv$name/bin:/usr/bin:/bin" PYTHONSAFEPATH=1 sh -euc '
        cd /project
        [ -d "$VENV" ] || "$PYTHON" -m venv "$VENV"
        pip install -q --disable-pip-version-check --only-binary :all: .
        deploy/arm64/wheel.sh /project/wheels'
rm -rf "$out"
mkdir -p "$out"
cp "$root"/project/wheels/*.whl "$out/"
chown -R --reference="$project" "$project/dist"
