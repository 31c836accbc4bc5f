#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds one target of one preset of CMakePresets.json in build/PRESET. Configures that first when
# necessary. With nothing to do it costs only ninja's check. Output goes to stderr.
#
#   scripts/build_preset.sh PRESET TARGET
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
preset=$1
target=$2
build="$root/build/$preset"
stamp="$build/configured-with"

# What the configuration depends on and ninja does not watch: the presets and the path of the
# checkout. dpkg's status file shows packages that were installed or removed since.
fingerprint() { printf '%s\n' "$root" "$(cksum <"$root/CMakePresets.json")"; }
is_configured() {
  [[ -f $build/build.ninja && -f $stamp && ! /var/lib/dpkg/status -nt $stamp ]] &&
    [[ $(<"$stamp") == "$(fingerprint)" ]]
}

configure() {
  local arguments=(-S "$root" --preset "$preset") tests=OFF micro
  # After a move of the checkout the cache still names the old path.
  if ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt" 2>/dev/null; then
    arguments+=(--fresh)
  fi
  # run.sh must work without the packages of the tests.
  if "$root/scripts/install_packages.sh" --check test; then tests=ON; fi
  case $preset in
    asan* | tsan* | fuzz) micro=OFF ;; # nothing is measured there
    *) micro=$tests ;;
  esac
  cmake "${arguments[@]}" -DDDPBENCH_BUILD_TESTS=$tests -DDDPBENCH_BUILD_MICRO=$micro
  fingerprint >"$stamp"
}

mkdir -p "$build"
exec 9>"$build/lock"
flock 9 # two builds in one folder would damage each other
{
  is_configured || configure
  cmake --build "$build" --target "$target"
} >&2 9>&-
