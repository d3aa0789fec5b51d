#!/bin/bash
# The life of the package: 0.1 installed, configured, upgraded, removed, installed again, purged.
# shellcheck disable=SC2015,SC2016 # `soon` evaluates its text, and `pass` does not fail
# shellcheck source=tests/real/guest.sh
bin=/usr/bin/edge-tvbo
. "$(dirname "$0")/guest.sh"
export DEBIAN_FRONTEND=noninteractive
version() { dpkg-query -W -f '${db:Status-Abbrev}${Version}' edge-tvbo 2>/dev/null; }
there() { for each in "$@"; do [ -e "$each" ] || return 1; done; }

# --- install, without a configuration -------------------------------------------------------------------
apt-get install -y /root/old.deb >/root/install 2>&1
is install "$? $(version | cut -d- -f1)" '0 ii 0.1.0'
is 'enabled, not started' "$(systemctl is-enabled $u) $(prop ActiveState) $(prop ConditionResult)" \
    'enabled inactive no'
is user "$(getent passwd edge-tvbo | cut -d: -f6,7)" /var/lib/edge-tvbo:/usr/sbin/nologin
is 'password file' "$(stat -c '%a %U %s' /etc/edge-tvbo/mqtt.password)" '600 root 0'
is conffiles "$(dpkg-query -W -f '${Conffiles}' edge-tvbo | tr -d '\n' | cut -d' ' -f2)" /etc/default/edge-tvbo
there /usr/share/man/man1/edge-tvbo.1.gz /usr/share/man/man1/edge-tvbo-run.1.gz \
    /usr/share/bash-completion/completions/edge-tvbo /usr/share/zsh/vendor-completions/_edge-tvbo \
    /usr/share/doc/edge-tvbo/examples/acl /usr/share/doc/edge-tvbo/copyright &&
    pass documentation 'manual pages, completions, examples' || fail documentation
is 'nothing compiles' "$(PYTHONPATH=/usr/lib/edge-tvbo python3 -c 'import importlib.util, shutil
from edge_tvbo.numerics.jit import COMPILATION
print(COMPILATION, importlib.util.find_spec("numba"), shutil.which("gcc"))')" 'ahead of time None None'
find /usr/lib/edge-tvbo -name '__pycache__' | grep -q . && pass 'byte-compiled' || fail 'byte-compiled'

# --- configure as README.Debian says, with the broker of the examples ----------------------------------
examples=/usr/share/doc/edge-tvbo/examples
cp $examples/config.example.toml $conf
sed -i 's|^dir = ""|dir = "/var/lib/edge-tvbo"|' $conf
(cd $examples && sh -euc "$(sed -n '/^$/q; s/^# *\(install .*\)/\1/p' mosquitto.conf)") ||
    fail 'commands of mosquitto.conf'
configure
start_sensors
found=$(edge-tvbo check $conf 2>&1) && pass check "$found" || fail check "$found"
began=$(date +%s%3N)
systemctl start $u
status=$?
took=$(($(date +%s%3N) - began))
is start "$status $(prop ActiveState)" '0 active'
echo "     READY after $took ms, $(grep VmRSS "/proc/$(prop MainPID)/status" | tr -s '\t ' ' ')"
log_of | grep -q 'ready:.*ahead of time' && pass kernels 'ahead of time' || fail kernels "$(log_of | grep ready:)"
soon 30 is_online && pass online "$(metric edge_tvbo_link_online)" || fail online "$(log_of -n 3)"
soon 60 '[ "$(interval)" -ge 3 ]' && pass decides "interval $(interval)" || fail decides "$(log_of -n 3)"
edge-tvbo status $conf | grep -q online && pass status "$(edge-tvbo status $conf | head -1)" || fail status
exposure=$(systemd-analyze security $u --no-pager | sed -n 's/.*: \([0-9.]*\) [A-Z]*.*/\1/p' | tail -1)
awk "BEGIN {exit !($exposure < 1.0)}" && pass exposure "$exposure" || fail exposure "$exposure"
systemctl reload $u && pass reload "$(log_of | grep 'reload: ')" || fail reload "$(log_of -n 3)"

# --- upgrade ---------------------------------------------------------------------------------------------
echo '# changed by the operator' >>/etc/default/edge-tvbo
before=$(interval)
m=$(prop MainPID)
sums=$(md5sum $conf /etc/edge-tvbo/mqtt.password /etc/default/edge-tvbo)
apt-get install -y -o Dpkg::Options::=--force-confdef /root/new.deb >/root/upgrade 2>&1
status=$?
is upgrade "$status $(version | cut -d- -f1)" "0 ii $(dpkg-deb -f /root/new.deb Version | cut -d- -f1)"
is 'check after the upgrade' "$(edge-tvbo check $conf 2>&1)" "$conf: good: 1 field, 3 sensors"
is 'files of the operator' "$(md5sum $conf /etc/edge-tvbo/mqtt.password /etc/default/edge-tvbo)" "$sums"
soon 60 "is_replaced $m" && soon 30 is_online && soon 60 "[ \"\$(interval)\" -gt $before ]" &&
    pass 'state after the upgrade' "interval $before, then $(interval); $(log_of | grep '^state:' | tail -1)" ||
    fail 'state after the upgrade' "interval $before, then $(interval); $(log_of -n 3)"
log_of | grep -q '^state: restored' && pass restored || fail restored "$(log_of | grep '^state:')"

# --- upgrade to a version that rejects the configuration -----------------------------------------------------
m=$(prop MainPID)
cp $conf /root/config.toml
sed -i 's/^reconnect = .*/reconnect = { min = "1s", max = "soon" }/' $conf
dpkg -i /root/new.deb >/root/rejected 2>&1
status=$?
is 'upgrade with an invalid configuration' \
    "$status $(is_replaced "$m" || echo same process) $(grep -c 'reconnect.*E105\|not restarted' /root/rejected)" \
    '0 same process 2'
cp /root/config.toml $conf

# --- remove ----------------------------------------------------------------------------------------------
apt-get remove -y edge-tvbo >/root/remove 2>&1
is remove "$? $(version | cut -c1-3) $(pgrep -u edge-tvbo -c)" '0 rc  0'
{ ! there /usr/lib/edge-tvbo && there $conf /var/lib/edge-tvbo /etc/default/edge-tvbo; } &&
    pass 'kept after remove' "$(find /var/lib/edge-tvbo -name '*.state' | head -1)" ||
    fail 'kept after remove' "$(ls -d /usr/lib/edge-tvbo $conf /var/lib/edge-tvbo 2>&1); $(find /usr/lib/edge-tvbo | head -3)"
apt-get install -y /root/new.deb >/root/again 2>&1
soon 60 is_online && log_of | grep -q 'state: restored' &&
    pass 'installed again' "$(log_of | grep '^state:' | tail -1)" || fail 'installed again' "$(log_of -n 3)"

# --- purge -----------------------------------------------------------------------------------------------
apt-get purge -y edge-tvbo >/root/purge 2>&1
is purge "$? $(version | cut -c1-2)" '0 '
left=$(find /etc/edge-tvbo /etc/default/edge-tvbo /var/lib/edge-tvbo /var/cache/edge-tvbo /usr/lib/edge-tvbo \
    /etc/systemd/system -name '*edge-tvbo*' 2>/dev/null)
is 'left after purge' "$left" ''
is 'no unit' "$(systemctl show -P LoadState $u)" not-found
