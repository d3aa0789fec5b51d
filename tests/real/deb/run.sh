#!/bin/sh
# The Debian package in a Debian with systemd, without a network: install, configure, start, upgrade from 0.1,
# remove, purge.
#
# The package of 0.1 is that of package-0.1.sh, or else the new one under the number 0.1.0.
#
#   sudo tests/real/deb/run.sh bookworm | trixie      after `make deb`
set -eu
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/real/lib.sh
. "$here/../lib.sh"

suite=${1:-bookworm}
checks=29
need_root
need systemd-nspawn systemd-container
need lintian lintian
log=$state/deb-$suite.log
case $suite in
bookworm) debian=12 ;;
trixie) debian=13 ;;
*) skip_all "the suite is '$suite'; it can be bookworm or trixie" ;;
esac
mkdir -p "$state"
kind=~deb${debian}u1_$(dpkg --print-architecture).deb
package=$(find "$project/dist" -name "edge-tvbo_*$kind" | sort -V | tail -1)
[ -n "$package" ] || skip_all "there is no package for $suite in dist/:  make deb SUITE=$suite"

machine "$suite" "$state/deb-$suite"
: >"$log"
lintian "$package" >"$log.lintian" 2>&1 || :
if grep -q '^E:' "$log.lintian"; then
    echo "FAIL lintian | $(grep -c '^E:' "$log.lintian") errors" | tee -a "$log"
    grep '^E:' "$log.lintian"
else
    echo "PASS lintian | no errors, $(grep -c '^W:' "$log.lintian" || :) warnings" | tee -a "$log"
fi
cp "$package" "$root/root/new.deb"
if [ -e "$project/dist/edge-tvbo_0.1.0-1$kind" ]; then
    cp "$project/dist/edge-tvbo_0.1.0-1$kind" "$root/root/old.deb"
    echo "     upgrade from a package of the sources of 0.1"
else
    older_package "$package" "$root/root/old.deb"
    echo "     upgrade from the same package under the number 0.1.0"
fi
cp "$here/../guest.sh" "$here/guest-package.sh" "$root/root/"
trap 'kill -KILL "$init" "$nspawn" 2>/dev/null || :' EXIT
boot
inside 'bash /root/guest-package.sh' 2>"$log.errors" | tee -a "$log" || :
verdict $checks
