#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs the packages of the named groups of packages.txt that are missing, and only those.
# Touches no network and needs no rights when nothing is missing.
#
#   scripts/install_packages.sh GROUP...      # run, test, check, tidy
#
# Exit: 0 all there; 2 wrong usage; 3 something is missing and cannot be installed from here.
set -euo pipefail

list="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/packages.txt"

say() { printf 'install_packages.sh: %s\n' "$*" >&2; }

# Prints the packages of the groups in "$@", one a line; exit 2 for an unknown group.
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
      say "no group '$wanted' in $list (known: run, test, check, tidy)"
      return 2
    fi
  done
}

# Prints those of the packages in "$@" that are not installed.
missing_of() {
  local installed package
  # dpkg-query fails when it has never heard of one of them, and still prints the others.
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "installed $package" <<<"$installed" || printf '%s\n' "$package"
  done
}

# Runs apt-get install for "$@"; fetches package lists first when they are absent, and again when they
# are too old to install from.
install_now() {
  local apt=(apt-get)
  if ((EUID != 0)); then apt=(sudo env DEBIAN_FRONTEND=noninteractive apt-get); fi
  export DEBIAN_FRONTEND=noninteractive
  local install=(install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 "$@")
  if apt-get install --simulate -qq --no-install-recommends "$@" >/dev/null 2>&1 </dev/null &&
    "${apt[@]}" "${install[@]}" >&2 </dev/null; then
    return 0
  fi
  say "fetching package lists"
  "${apt[@]}" update -q >&2 </dev/null
  "${apt[@]}" "${install[@]}" >&2 </dev/null
}

if (($# == 0)); then
  say "usage: install_packages.sh GROUP... (run, test, check, tidy)"
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
