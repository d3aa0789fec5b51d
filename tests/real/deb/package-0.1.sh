#!/bin/sh
# Builds a package of version 0.1.0 into dist/, from which run.sh then upgrades: the last sources with that number, from
# the history of git. No package of 0.1 was ever made, so its scripts and its unit are the present ones.
#
#   sudo tests/real/deb/package-0.1.sh bookworm | trixie      after `make deb`
set -eu
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/real/lib.sh
. "$here/../lib.sh"

suite=${1:-bookworm}
arch=$(dpkg --print-architecture)
commit=e301e72
need_root
git() { command git -c safe.directory="$project" -C "$project" "$@"; }
git cat-file -e $commit 2>/dev/null || skip_all "a package of 0.1: this checkout has no commit $commit; git fetch --unshallow"
python=$project/.venv/bin/python
[ -x "$python" ] || skip_all "a package of 0.1: needs .venv:  make man"

old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
chmod 755 "$old"
git archive $commit | tar -x -C "$old"
cd "$project/deploy"
cp -r debian edge-tvbo.service "$old/deploy/"
cp arm64/wheel.sh "$old/deploy/arm64/"
cd "$old"
say "building a package of $commit for $suite"
PYTHONPATH=$old:$old/adapters "$python" deploy/man_pages.py build/man
deploy/debian/wheels.sh "$suite" "$arch" >&2
package=$(PYTHON=$python deploy/debian/build.sh "$suite" "$arch")
cp "$package" "$project/dist/"
chown --reference="$project" "$project/dist/${package##*/}"
echo "dist/${package##*/}"
