#!/bin/sh
# Builds the Debian package from the wheels of dist/SUITE-ARCH and the manual pages of build/man; `make deb`
# makes both first. It needs dpkg-deb, and no root.
#
#   deploy/debian/build.sh SUITE ARCH      prints the name of the package, in dist/
set -eu

suite=$1 arch=$2
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
project=$(dirname "$(dirname "$here")")
wheels=$project/dist/$suite-$arch
man=$project/build/man
case $suite in
bookworm) debian=12 python=3.11 next=3.12 ;;
trixie) debian=13 python=3.13 next=3.14 ;;
*) echo "build.sh: the suite is '$suite'; it can be bookworm or trixie" >&2; exit 1 ;;
esac
wheel=$(echo "$wheels"/edge_tvbo-*-manylinux_*.whl)
[ -e "$wheel" ] || { echo "build.sh: run  deploy/debian/wheels.sh $suite $arch  first" >&2; exit 1; }
[ -e "$man/edge-tvbo.1" ] || { echo "build.sh: run  make man  first" >&2; exit 1; }
upstream=$(basename "$wheel" | cut -d- -f2)
version=$upstream-1~deb${debian}u1
glibc=$(basename "$wheel" | sed 's/.*manylinux_\([0-9]*\)_\([0-9]*\)_.*/\1.\2/')

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
umask 022
lib=$tree/usr/lib/edge-tvbo doc=$tree/usr/share/doc/edge-tvbo

# --- the program -----------------------------------------------------------------------------------
mkdir -p "$lib"
for each in "$wheels"/*.whl; do python3 -m zipfile -e "$each" "$lib"; done
rm -rf "${lib:?}"/*.data "${lib:?}/bin"
find "$lib" -type d -name tests -prune -exec rm -rf {} +
find "$lib" -name '*_tests.cpython-*.so' -delete
find "$lib" -name '*.py' -exec sed -i '1{/^#!/d}' {} +
find "$lib" -type f -exec chmod 644 {} +
install -D -m 755 "$here/edge-tvbo.sh" "$tree/usr/bin/edge-tvbo"
install -D -m 644 "$here/default" "$tree/etc/default/edge-tvbo"
mkdir "$tree/etc/edge-tvbo"

# The kernels are compiled: neither a cache nor memory that is written and then executed is needed.
mkdir -p "$tree/usr/lib/systemd/system"
sed -e 's|/opt/edge-tvbo/bin/edge-tvbo|/usr/bin/edge-tvbo|' \
    -e '/^# --- two exceptions/,/^MemoryDenyWriteExecute=/c\
# Use memory that is written and then executed; the kernels are compiled.\
MemoryDenyWriteExecute=yes' \
    "$here/../edge-tvbo.service" >"$tree/usr/lib/systemd/system/edge-tvbo.service"

# --- documentation -----------------------------------------------------------------------------------
for page in "$man"/*.1; do
    install -D -m 644 "$page" "$tree/usr/share/man/man1/${page##*/}"
done
gzip -9n "$tree"/usr/share/man/man1/*.1
export PYTHONPATH="$project:$project/adapters"
completion() { "${PYTHON:-$project/.venv/bin/python}" -m edge_tvbo completion "$1"; }
mkdir -p "$tree/usr/share/bash-completion/completions" "$tree/usr/share/zsh/vendor-completions" \
    "$tree/usr/share/fish/vendor_completions.d"
completion bash >"$tree/usr/share/bash-completion/completions/edge-tvbo"
completion zsh >"$tree/usr/share/zsh/vendor-completions/_edge-tvbo"
completion fish >"$tree/usr/share/fish/vendor_completions.d/edge-tvbo.fish"
mkdir -p "$doc/examples"
cp -r "$here"/../acl "$here"/../mosquitto.conf "$here"/../config.example.toml "$here"/../fleet "$doc/examples/"
cp "$here/copyright" "$here/README.Debian" "$doc/"
chmod -R u=rwX,go=rX "$doc" # whatever the umask of the checkout was
gzip -9nc "$project/CHANGELOG.md" >"$doc/changelog.gz"
gzip -9nc >"$doc/changelog.Debian.gz" <<END
edge-tvbo ($version) $suite; urgency=medium

  * Version $upstream; the changes are in changelog.gz.

 -- $(sed -n 's/^Maintainer: //p' "$here/control.in")  $(date -R -u -r "$wheel")
END
install -D -m 644 "$here/lintian-overrides" "$tree/usr/share/lintian/overrides/edge-tvbo"

# --- the package -----------------------------------------------------------------------------------
mkdir "$tree/DEBIAN"
sed "s/@VERSION@/$version/; s/@ARCH@/$arch/; s/@PYTHON@/$python/; s/@NEXT@/$next/; s/@GLIBC@/$glibc/
    s/@SIZE@/$(du -sk --apparent-size "$tree" | cut -f1)/" "$here/control.in" >"$tree/DEBIAN/control"
echo /etc/default/edge-tvbo >"$tree/DEBIAN/conffiles"
for each in postinst prerm postrm; do install -m 755 "$here/$each" "$tree/DEBIAN/"; done
(cd "$tree" && find usr -type f -exec md5sum {} +) >"$tree/DEBIAN/md5sums"
package=$project/dist/edge-tvbo_${version}_$arch.deb
dpkg-deb --root-owner-group -Zxz --build "$tree" "$package" >/dev/null
echo "$package"
