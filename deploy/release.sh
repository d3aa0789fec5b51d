#!/bin/sh
# Builds everything that a release consists of, into dist/release: the wheel without kernels, the sdist, a wheel with
# compiled kernels and a Debian package for each system, checksums, an SBOM of the locked dependencies, and notes. Each
# wheel is checked in a clean root. Debian forky, which is not released, has a wheel alone, for Python 3.14.
# `make release` runs it; it needs root. It prints what it leaves out, and why.
#
# No Debian has Python 3.12. Its wheel for a PC is made with a Python of pyenv, or with that of the folder PYTHON312.
#
#   sudo deploy/release.sh [SYSTEM...]      such as  bookworm-amd64 trixie-arm64 python3.12-amd64; without: all
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
project=$(dirname "$here")
out=$project/dist/release
python=${PYTHON:-$project/.venv/bin/python}
failed=0

say() { printf '[%s] %s\n' "$(date +%T)" "$*" >&2; }
[ $# -gt 0 ] || set -- bookworm-amd64 trixie-amd64 forky-amd64 python3.12-amd64 \
    bookworm-arm64 trixie-arm64 forky-arm64 python3.12-arm64

rm -rf "$out"
mkdir -p "$out"
cd "$project"
say "sdist and the wheel without kernels"
env -u EDGE_TVBO_KERNELS "$python" -m hatchling build -d "$out" >/dev/null 2>&1
version=$(basename "$out"/edge_tvbo-*-py3-none-any.whl | cut -d- -f2)

for system in "$@"; do
    suite=${system%-*} arch=${system#*-} home=
    case $system in
    python3.12-amd64)
        home=${PYTHON312:-$(find ~/.pyenv/versions -maxdepth 1 -name '3.12.*' 2>/dev/null | sort -V | tail -1)}
        suite=bookworm
        [ -n "$home" ] || {
            echo "SKIP wheel for $system: no Debian has Python 3.12; name the folder of one in PYTHON312"
            continue
        }
        ;;
    python3.12-*)
        echo "SKIP wheel for $system: no Debian has Python 3.12, and none is compiled here"
        continue
        ;;
    esac
    say "wheel for $system"
    "$here/debian/wheels.sh" "$suite" "$arch" ${home:+"$home"} >"$out/$system.log" 2>&1 || {
        tail -3 "$out/$system.log"
        echo "FAIL wheel for $system"
        failed=1
        continue
    }
    cp "dist/$suite-$arch${home:+-$(basename "$home")}"/edge_tvbo-*.whl "$out/"
    case $arch in
    arm64) "$here/arm64/run.sh" --suite "$suite" --wheels "dist/$system" deploy/arm64/round-trip.sh ;;
    *) "$project/tests/real/wheel/run.sh" "$suite" ${home:+"$home"} ;;
    esac || failed=1
    [ "$suite" = forky ] || [ -n "$home" ] || cp "$("$here/debian/build.sh" "$suite" "$arch")" "$out/"
    rm "$out/$system.log"
done

sed -n "/^## $version/,/^## /{/^## /!p}" CHANGELOG.md >"$out/NOTES.md"
if make -n sbom >/dev/null 2>&1; then
    make --no-print-directory sbom && cp dist/*.cdx.json "$out/" || failed=1
else
    echo "SKIP SBOM: there is no target sbom"
fi
(cd "$out" && sha256sum -- *.whl *.tar.gz *.deb *.json 2>/dev/null >SHA256SUMS) || :
chown -R --reference="$project" "$project/dist"
ls -l "$out"
exit $failed
