#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs the packages of the named groups of packages.txt that are missing, and no others. Uses no
# network and needs no rights when none is missing.
#
#   scripts/install_packages.sh GROUP...            # run, test, check, tidy, fuzz
#   scripts/install_packages.sh --check GROUP...    # only the exit code: whether all are installed
#
# Exit: 0 all are installed; 1 --check found one missing; 2 wrong usage; 3 one is missing and cannot
# be installed here.
set -euo pipefail

list="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/packages.txt"

say() { printf 'install_packages.sh: %s\n' "$*" >&2; }

# Prints the packages of the groups in "$@", one on each line; exit 2 for an unknown group.
packages_of() {
  local wanted group package rest found
  for wanted in "$@"; do
    found=no
    while read -r group package rest; do
      if [[ $group == "$wanted" ]]; then
        found=yes
        printf '%s\n' "$package"
      fi
    done <"$list"
    if [[ $found == no ]]; then
      say "no group '$wanted' in $list (known: run, test, check, tidy, fuzz)"
      return 2
    fi
  done
}

# Prints the packages in "$@" that are not installed.
missing_of() {
  local installed package
  # dpkg-query fails when it does not know one of them, but still prints the others.
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "installed $package" <<<"$installed" || printf '%s\n' "$package"
  done
}

# Runs apt-get as root. Its output is shown only when it fails.
apt_get() {
  local as_root=() output
  if ((EUID != 0)); then as_root=(sudo); fi
  output=$("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q \
    -o DPkg::Lock::Timeout=300 "$@" 2>&1 </dev/null) && return
  printf '%s\n' "$output" | tail -n 20 >&2
  return 1
}

# Installs "$@". Fetches package lists first if they are absent, or if installing with them fails:
# they may be too old.
install_now() {
  local install=(install -y --no-install-recommends)
  if apt-get "${install[@]}" --simulate -qq "$@" >/dev/null 2>&1 && apt_get "${install[@]}" "$@"; then
    return
  fi
  say "fetching package lists"
  apt_get update && apt_get "${install[@]}" "$@"
}

check_only=no
if [[ ${1-} == --check ]]; then
  check_only=yes
  shift
fi
if (($# == 0)); then
  say "usage: install_packages.sh [--check] GROUP... (run, test, check, tidy, fuzz)"
  exit 2
fi
names=$(packages_of "$@")
mapfile -t packages <<<"$names"

if ! command -v dpkg-query >/dev/null; then
  say "this is no Debian system, nothing was checked; needed are what Debian 12 calls: ${packages[*]}"
  exit 0
fi
mapfile -t missing < <(missing_of "${packages[@]}")
if ((${#missing[@]} == 0)); then exit 0; fi
if [[ $check_only == yes ]]; then exit 1; fi

by_hand="apt-get update && apt-get install --no-install-recommends ${missing[*]}"
if ((EUID != 0)) && ! command -v sudo >/dev/null; then
  say "missing packages, and neither root nor sudo to install them with. Run as root: $by_hand"
  exit 3
fi
say "installing: ${missing[*]}"
if ! install_now "${missing[@]}"; then
  say "apt-get failed (above). Once that is mended, run as root: $by_hand"
  exit 3
fi
