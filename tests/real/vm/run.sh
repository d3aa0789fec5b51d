#!/bin/sh
# The Debian package on an emulated computer with a 64-bit ARM processor and a Linux of its own: READY,
# decisions, control groups of version 2, and a power cut. The clock of raspi3b, as of a Pi, is wrong at the start.
# The test `package` installs, upgrades, removes and purges the package on virt, as ../deb does on a PC.
#
#   sudo tests/real/vm/run.sh virt | raspi3b | package [bookworm | trixie]      after `make deb ARCH=arm64 SUITE=...`
set -eu
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/real/lib.sh
. "$here/../lib.sh"

test=${1:-raspi3b}
suite=${2:-bookworm}
minutes=25
case $test in
virt | raspi3b) board=$test script=guest-vm.sh checks=15 ;;
package) board=virt script=guest-package.sh checks=28 ;;
*) skip_all "the test is '$test'; it can be virt, raspi3b or package" ;;
esac
case $suite in
bookworm) debian=12 ;;
trixie) debian=13 ;;
*) skip_all "the suite is '$suite'; it can be bookworm or trixie" ;;
esac
need_root
mkdir -p "$state"
exec 9>"$state/vm.lock" # a second test waits until the first has installed the tools and created the root
flock 9
need qemu-system-aarch64 qemu-system-arm
need cpio cpio
need mke2fs e2fsprogs
need modprobe kmod
need mmdebstrap mmdebstrap
need arch-test arch-test
need qemu-aarch64-static qemu-user-static
package=$(find "$project/dist" -name "edge-tvbo_*~deb${debian}u1_arm64.deb" | sort -V | tail -1)
[ -n "$package" ] || skip_all "there is no package for arm64 in dist/:  make deb ARCH=arm64 SUITE=$suite"
base=$state/vm-$suite
vm=$state/vm-$test-$suite
log=$vm.log
mkdir -p "$vm"

# Debian for arm64, with a kernel that is only unpacked: its scripts would run for a quarter of an hour. The apt of this
# machine fetches it: that of the root, emulated, would read its lists for minutes, here and on each use.
make_base() {
    [ ! -e "$base" ] || return 0
    say "creating a root of Debian $suite for arm64"
    [ -e /proc/sys/fs/binfmt_misc/register ] || mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    [ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] ||
        tr -d '\n' </usr/lib/binfmt.d/qemu-aarch64.conf >/proc/sys/fs/binfmt_misc/register
    rm -rf --one-file-system "$base.new"
    packages=systemd-sysv,udev,dbus,kmod,procps,iproute2,curl,libstdc++6,python3,mosquitto,mosquitto-clients
    cat >"$vm/kernel.sh" <<'END'
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
mkdir "$1/kernel"
cd "$1/kernel"
kernel=$(apt-cache depends linux-image-arm64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
apt-get download -qq -o APT::Sandbox::User=root busybox-static "$kernel"
END
    mmdebstrap --quiet --mode=root --variant=apt --architectures=arm64 --include="$packages,adduser,tzdata" \
        --customize-hook="sh -e $vm/kernel.sh \"\$1\"" "$suite" "$base.new"
    cp /etc/hosts /etc/resolv.conf "$base.new/etc/"
    for each in "$base.new"/kernel/*.deb; do
        dpkg-deb --fsys-tarfile "$each" | tar -x --keep-directory-symlink -C "$base.new"
    done
    rm -r "$base.new/kernel"
    mv "$base.new" "$base"
}

# An initial file system that loads the drivers of the disk, and goes on with the disk.
make_initrd() {
    kernel=$(ls "$base/lib/modules")
    depmod -b "$base" "$kernel"
    rm -rf "$vm/initrd"
    mkdir -p "$vm/initrd/bin" "$vm/initrd/modules" "$vm/initrd/mnt" "$vm/initrd/proc" \
        "$vm/initrd/sys" "$vm/initrd/dev"
    cp "$base/bin/busybox" "$vm/initrd/bin/"
    number=100
    for name in ext4 virtio_pci virtio_mmio virtio_blk bcm2835 sdhci_iproc mmc_block; do
        modprobe -d "$base" -S "$kernel" --show-depends $name 2>/dev/null || :
    done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r module; do
        number=$((number + 1))
        case $module in
        *.xz) xz -dc "$module" ;;
        *) cat "$module" ;;
        esac >"$vm/initrd/modules/$number.ko"
    done
    cat >"$vm/initrd/init" <<'END'
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
for module in /modules/*; do insmod $module; done
for word in $(cat /proc/cmdline); do
    case $word in root=*) root=${word#root=} ;; esac
done
echo "initrd: waiting for $root"
until [ -b $root ]; do sleep 1; done
echo "initrd: mounting $root"
mount -t ext4 $root /mnt
echo "initrd: starting systemd"
for each in dev proc sys; do mount --move /$each /mnt/$each; done
exec switch_root /mnt /sbin/init
END
    chmod 755 "$vm/initrd/init"
    (cd "$vm/initrd" && find . | cpio -o -H newc --quiet | gzip -1) >"$vm/initrd.img"
    cp "$base/boot/vmlinuz-$kernel" "$vm/vmlinuz"
    cp "$base/usr/lib/linux-image-$kernel/broadcom/bcm2837-rpi-3-b.dtb" "$vm/"
}

# The package is installed by apt here, in an emulated chroot: on raspi3b, dpkg would wait for its memory card for a
# quarter of an hour.
install_package() {
    if unshare --mount --pid --fork --mount-proc="$vm/root/proc" chroot "$vm/root" \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
        apt-get install -y /root/new.deb >"$vm/install" 2>&1; then
        echo 'PASS apt install | emulated chroot' | tee -a "$log"
    else
        tail -3 "$vm/install"
        echo 'FAIL apt install' | tee -a "$log"
    fi
}

# The disk: the root with the package, and the script that runs the checks on the console.
make_disk() {
    rm -rf --one-file-system "$vm/root"
    cp -a "$base" "$vm/root"
    rm -f "$vm/root/usr/sbin/policy-rc.d"
    echo gateway >"$vm/root/etc/hostname"
    printf '127.0.0.1 localhost\n127.0.1.1 gateway\n' >"$vm/root/etc/hosts"
    echo '/dev/root / ext4 defaults,noatime 0 0' >"$vm/root/etc/fstab"
    mkdir -p "$vm/root/var/log/journal"
    cp "$package" "$vm/root/root/new.deb"
    cp "$here/../guest.sh" "$here/guest-vm.sh" "$here/../deb/guest-package.sh" "$vm/root/root/"
    if [ "$test" = package ]; then older_package "$package" "$vm/root/root/old.deb"; else install_package; fi
    cat >"$vm/root/etc/systemd/system/checks.service" <<END
[Unit]
After=multi-user.target

[Service]
Type=simple
ExecStart=/bin/sh -c 'echo >/dev/console; bash /root/$script >/dev/console; sync; echo END >/dev/console'
Environment=HOME=/root SLOW=10

[Install]
WantedBy=multi-user.target
END
    # The prompt of a login, and the codes that systemd 257 writes first, would stand before our lines.
    ln -s /dev/null "$vm/root/etc/systemd/system/serial-getty@ttyAMA0.service"
    ln -s ../checks.service "$vm/root/etc/systemd/system/multi-user.target.wants/checks.service"
    rm -f "$vm/disk.img"
    mke2fs -q -t ext4 -E root_owner=0:0 -d "$vm/root" "$vm/disk.img" 4G
    rm -rf --one-file-system "$vm/root"
}

# Start the computer, print its checks, and wait until it says END; then cut its power.
power_on() {
    common="-display none -nic none -serial file:$vm/console -no-reboot -kernel $vm/vmlinuz -initrd $vm/initrd.img"
    append='rw panic=-1 quiet loglevel=1 systemd.show_status=false'
    : >"$vm/console"
    case $board in
    virt)
        # shellcheck disable=SC2086 # several words
        setsid qemu-system-aarch64 -M virt -cpu cortex-a72 -m 1024 -smp 2 $common \
            -append "root=/dev/vda console=ttyAMA0 $append" \
            -drive if=none,id=disk,file="$vm/disk.img",format=raw -device virtio-blk-pci,drive=disk \
            </dev/null >"$vm/qemu.log" 2>&1 &
        ;;
    raspi3b)
        # Its clock counts instructions, 250 million a second. With the clock of a busy host, requests to the memory card
        # run out of time, and their driver ends in an Oops: no disk, and nothing on the console, for ever. vchiq, the
        # driver of a graphics processor that qemu has not, ends in an Oops too, which prints into our lines.
        append="$append modprobe.blacklist=vchiq,vc4,dwc2"
        # shellcheck disable=SC2086 # several words
        setsid qemu-system-aarch64 -M raspi3b -icount shift=2 -dtb "$vm/bcm2837-rpi-3-b.dtb" $common \
            -append "root=/dev/mmcblk0 console=ttyAMA0,115200 $append" \
            -drive if=sd,file="$vm/disk.img",format=raw </dev/null >"$vm/qemu.log" 2>&1 &
        ;;
    esac
    computer=$!
    trap 'kill -KILL $computer 2>/dev/null || :' EXIT
    trap 'exit 1' HUP INT TERM
    end=$(($(date +%s) + minutes * 60))
    until grep -q '^END' "$vm/console"; do
        if [ "$(date +%s)" -gt $end ] || ! kill -0 $computer 2>/dev/null; then
            say "the computer has not finished; see $vm/console and $vm/qemu.log, which end with:"
            tail -n 12 "$vm/console" "$vm/qemu.log" >&2
            break
        fi
        sleep 2
    done
    kill -KILL $computer 2>/dev/null || :
    wait $computer 2>/dev/null || :
    tr -d '\r' <"$vm/console" | grep -a '^PASS \|^FAIL \|^SKIP \|^     ' | tee -a "$log"
}

: >"$log"
make_base
exec 9>&-
make_initrd
make_disk
say "power on"
power_on
if [ "$test" != package ]; then
    say "power on after the power was cut"
    power_on
fi
verdict $checks
