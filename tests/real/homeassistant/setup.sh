#!/bin/sh
# Install Home Assistant VERSION from PyPI in a Debian chroot under DIR/VERSION. Needs root.
#
#     setup.sh DIR VERSION
#
# Home Assistant wants a newer Python than most hosts have: the chroot is Debian's suite that has it.
# A finished chroot is reused. Prints where it is; its interpreter is /ha/bin/python.
set -eu
dir=$1 version=$2
case $version in
2025.1[0-2]*) suite=trixie python=python3.13 newer='pycares<5' ;; # 3.13.2
*) suite=forky python=python3.14 newer="infrared-protocols rf-protocols gazetteer-matcher" ;; # 3.14.2
esac
root=$dir/$version

mirror() { # the host's own Debian mirror
    awk '/^(deb|URIs:)/ { for (i = 1; i <= NF; i++) if ($i ~ /^https?:.*debian\/?$/) { print $i; exit } }' \
        /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null
}

# The certificates are those of the host, which may trust more than uv does.
inside() {
    chroot "$root" env -u PIP_FIND_LINKS HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt "$@"
}

if [ ! -e "$root/.debian" ]; then
    # A version of debootstrap that does not know the suite runs the script of sid.
    script=/usr/share/debootstrap/scripts/$suite
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
    rm -rf "$root"
    mkdir -p "$dir"
    debootstrap --variant=minbase --include=$python,$python-venv,$python-dev,gcc,g++,ca-certificates,tzdata \
        "$suite" "$root" "$(mirror)" "$script" >"$dir/debootstrap-$version.log" 2>&1 ||
        { tail -n 5 "$dir/debootstrap-$version.log" >&2; exit 1; }
    touch "$root/.debian"
fi

cp /etc/resolv.conf "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"

if [ ! -e "$root/.homeassistant" ]; then
    inside sh -euc "
        $python -m venv --clear /ha
        /ha/bin/pip install -q uv
        /ha/bin/uv pip install -q --python /ha/bin/python --no-deps homeassistant==$version"
    constraints=$(cd "$root" && echo ha/lib/python*/site-packages/homeassistant/package_constraints.txt)
    # Beside its own requirements those of the integrations that it sets up by itself; the network
    # is closed when it runs, so it cannot install them then.
    inside /ha/bin/uv pip install -q --python /ha/bin/python -c "/$constraints" \
        homeassistant==$version paho-mqtt home-assistant-frontend aiohasupervisor ha-ffmpeg \
        hassil home-assistant-intents numpy PyTurboJPEG mutagen pymicro-vad pyspeex-noise $newer
    touch "$root/.homeassistant"
fi
echo "$root"
