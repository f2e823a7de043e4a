#!/usr/bin/env bash
# Installs the programs of the databases that tests start, from Debian's or Ubuntu's packages, where they are missing. No service is
# started, and none is left behind.
set -euo pipefail

if [ -x /usr/sbin/mariadbd ] && [ -x /usr/bin/my_print_defaults ] && compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
  exit 0
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo

# Packages ask this program whether they may start their service; 101 says no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
  $sudo chmod 755 "$policy"
  trap '$sudo rm -f "$policy"' EXIT
fi
$sudo apt-get update -q
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends postgresql mariadb-server-core mariadb-client-core
