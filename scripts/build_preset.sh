#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds one target of one preset of CMakePresets.json in build/PRESET. Configures that first when
# necessary. With nothing to do it costs only ninja's check. Output goes to stderr.
#
# A user who may not write to build/PRESET gets what its owner built there: target `programs` ends
# with 0 when the program is there and no source is newer than its build, else with 1 and a sentence.
#
#   scripts/build_preset.sh PRESET TARGET
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
preset=$1
target=$2
build="$root/build/$preset"
stamp="$build/configured-with"
built="$build/built" # its time: when the last good build began

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

# Prints the first source that is newer than the last build; nothing if none is.
newer_source() {
  local reference="$built"
  if [[ ! -e $reference ]]; then reference="$build/bin/ddpbench"; fi
  find "$root" -mindepth 1 \( -name build -o -name tests -o -name '.?*' \) -prune -o -type f \
    \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.in' \
    -o -name '*.cmake' -o -name '*.js' -o -name '*.css' -o -name CMakeLists.txt \
    -o -name CMakePresets.json \) -newer "$reference" -print -quit
}

# Ends the script: uses what another user built, or says why not.
use_as_built() {
  local owner newer why
  owner=$(stat -c %U "$build" 2>/dev/null) || owner=$(stat -c %U "$root")
  if [[ $target != programs ]]; then
    why="only the programs can be used as they are"
  elif [[ ! -x $build/bin/ddpbench ]]; then
    why="nothing is built there yet"
  else
    newer=$(newer_source)
    if [[ -z $newer ]]; then exit 0; fi
    why="${newer#"$root"/} is newer than the program in it"
  fi
  printf 'build_preset.sh: %s belongs to %s, and you may not write to it; %s. %s\n' \
    "build/$preset" "$owner" "$why" \
    "Let $owner run the same command once, or make a clone of your own." >&2
  exit 1
}

if ! mkdir -p "$build" 2>/dev/null || [[ ! -w $build || (-e $build/lock && ! -w $build/lock) ]]; then
  use_as_built
fi
exec 9>"$build/lock"
flock 9 # two builds in one folder would damage each other
{
  touch "$built.new"
  is_configured || configure
  cmake --build "$build" --target "$target"
  case $target in programs | all) mv "$built.new" "$built" ;; esac
} >&2 9>&-
