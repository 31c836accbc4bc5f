#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs the packages of the named groups of packages.txt that are missing, and no others. Uses no
# network and needs no rights when none is missing.
#
#   scripts/install_packages.sh GROUP...            # run, test, engines, deb, check, tidy, fuzz
#   scripts/install_packages.sh --check GROUP...    # only the exit code: whether all are installed
#
# Knows the names of Debian 12 and 13, Ubuntu 24.04 and Fedora. On their relatives and other releases
# it only looks, and says what is missing. On any other system it cannot even look: it lists what is
# needed. Once all of that is there, ASSUME_PACKAGES="GROUP..." in the environment says so
# (ASSUME_PACKAGES=run ./run.sh).
#
# Exit: 0 all are installed; 1 --check found one missing; 2 wrong usage; 3 one is missing and cannot
# be installed here, or the system's packages are not known.
set -euo pipefail

list="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/packages.txt"
os_release=${OS_RELEASE_FILE:-/etc/os-release}

say() { printf 'install_packages.sh: %s\n' "$*" >&2; }

# Sets `system` (how messages name it), `names` (the column of packages.txt) and `is_known`, whether
# packages may be installed here.
identify_system() {
  local ID='' VERSION_ID='' ID_LIKE='' PRETTY_NAME=''
  # shellcheck disable=SC1090
  if [[ -r $os_release ]]; then source "$os_release"; fi
  system=${PRETTY_NAME:-this system}
  is_known=no
  case "$ID $VERSION_ID" in
    'debian 12' | 'debian 13' | 'ubuntu 24.04' | fedora*) is_known=yes ;;
  esac
  case " $ID $ID_LIKE " in
    *' ubuntu '*) names=ubuntu ;;
    *' debian '*) names=debian ;;
    *' fedora '*) names=fedora ;;
    *) names=none ;;
  esac
}

# Prints "PACKAGE<tab>WHY" for each package of the groups in "$@", by the names of this system (on
# unknown ones those of Debian); exit 2 for an unknown group.
packages_of() {
  local wanted group debian ubuntu fedora why found name
  for wanted in "$@"; do
    found=no
    while read -r group debian ubuntu fedora why; do
      if [[ $group != "$wanted" ]]; then continue; fi
      found=yes
      case $names in
        ubuntu) name=$ubuntu ;;
        fedora) name=$fedora ;;
        *) name=$debian ;;
      esac
      if [[ $name == = ]]; then name=$debian; fi
      if [[ $name != - ]]; then printf '%s\t%s\n' "$name" "${why#\# }"; fi
    done <"$list"
    if [[ $found == no ]]; then
      say "no group '$wanted' in $list (known: run, test, engines, deb, check, tidy, fuzz)"
      return 2
    fi
  done
}

# Prints the packages in "$@" that are not installed.
missing_of() {
  local installed package
  if [[ $names == fedora ]]; then
    for package in "$@"; do
      rpm -q --quiet --whatprovides "$package" 2>/dev/null || printf '%s\n' "$package"
    done
    return
  fi
  # dpkg-query fails when it does not know one of them, but still prints the others.
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "installed $package" <<<"$installed" || printf '%s\n' "$package"
  done
}

# Runs a command as root. Its output is shown only when it fails.
as_root() {
  local sudo=() output
  if ((EUID != 0)); then sudo=(sudo); fi
  output=$("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive "$@" 2>&1 </dev/null) && return
  printf '%s\n' "$output" | tail -n 20 >&2
  return 1
}
apt_get() { as_root apt-get -q -o DPkg::Lock::Timeout=300 "$@"; }

# Installs "$@". On Debian and Ubuntu fetches package lists first if they are absent, or if
# installing with them fails: they may be too old.
install_now() {
  local install=(install -y --no-install-recommends)
  if [[ $names == fedora ]]; then
    as_root dnf -y --setopt=install_weak_deps=False install "$@"
    return
  fi
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
  say "usage: install_packages.sh [--check] GROUP... (run, test, engines, deb, check, tidy, fuzz)"
  exit 2
fi
identify_system
needed=$(packages_of "$@")

groups=()
for group in "$@"; do
  if [[ " ${ASSUME_PACKAGES-} " != *" $group "* ]]; then groups+=("$group"); fi
done
if ((${#groups[@]} == 0)); then exit 0; fi

if [[ $names == none ]]; then
  if [[ $check_only == yes ]]; then exit 1; fi
  say "the packages of $system are not known here. Needed are, by Debian's names:"
  expand -t 24 <<<"$needed" | sed 's/^/  /' >&2
  say "once they are installed, set ASSUME_PACKAGES=\"$*\" and start again"
  exit 3
fi
mapfile -t packages < <(packages_of "${groups[@]}" | cut -f 1)
mapfile -t missing < <(missing_of "${packages[@]}")
if ((${#missing[@]} == 0)); then exit 0; fi
if [[ $check_only == yes ]]; then exit 1; fi

if [[ $names == fedora ]]; then
  by_hand="dnf install$(printf " '%s'" "${missing[@]}")"
else
  by_hand="apt-get update && apt-get install --no-install-recommends ${missing[*]}"
fi
if [[ $is_known == no ]]; then
  say "this was not tried on $system, so nothing is installed. Run as root: $by_hand"
  exit 3
fi
if ((EUID != 0)) && ! command -v sudo >/dev/null; then
  say "missing packages, and neither root nor sudo to install them with. Run as root: $by_hand"
  exit 3
fi
say "installing: ${missing[*]}"
if ! install_now "${missing[@]}"; then
  say "installing failed (above). Once that is mended, run as root: $by_hand"
  exit 3
fi
