#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs clang-tidy over the sources that changed since BASE (default: the last commit), or over all.
# It takes up to half a minute for each file, so CI leaves it out. Run it before you submit a change. All
# are checked as unity builds, sixteen files at a time, which reads their headers once (an hour on
# two cores, in place of two or three): the sources then count as headers of such a file (HeaderFilterRegex).
#
#   scripts/check_tidy.sh [BASE | --all]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/install_packages.sh run test tidy
build=build/tidy
mkdir -p "$build"
exec 9>"$build/lock"
flock 9 # two builds in one folder would damage each other

# configure UNITY: the compile commands, and the headers that are generated. What this machine does
# not build (CUDA without its toolkit, fuzzers) has no command. Warnings of the compiler that are
# errors would pass by the list of checks.
configure() {
  cmake --preset "$(scripts/ci_preset.sh)" -B "$build" "-DDDPBENCH_UNITY=$1" -DDDPBENCH_BUILD_TESTS=ON \
    -DDDPBENCH_WERROR=OFF -DDDPBENCH_BUILD_MICRO=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
  cmake --build "$build" --target ddpbench_write_version >/dev/null
}

# check [OPTIONS]: reads names of files that end with NUL.
check() {
  # Large pages: a third of the time went into page faults.
  GLIBC_TUNABLES=glibc.malloc.hugetlb=1 MALLOC_TOP_PAD_=67108864 \
    xargs -0 -r -n 1 -P "$(nproc)" clang-tidy-16 -p "$build" --quiet --warnings-as-errors='*' \
    --extra-arg=-Wno-unknown-warning-option "$@" # GCC's
}

if [[ ${1-} == --all ]]; then
  configure ON
  # Some targets compile by itself what another has in a unity.
  comm -23 <(sed -nE 's/^ *"file": "(.*\.(cpp|cxx))",?$/\1/p' "$build/compile_commands.json" | sort -u) \
    <(grep -rhE '^#include' --include='unity_*.cxx' "$build" | cut -d'"' -f2 | sort -u) |
    tr '\n' '\0' | check --checks=-bugprone-suspicious-include
  exit
fi

mapfile -d '' -t sources < <(git diff -z --name-only --diff-filter=d "${1-HEAD~1}" -- '*.cpp')
if ((${#sources[@]} == 0)); then
  printf 'check_tidy.sh: no source changed\n'
  exit 0
fi
configure OFF
for source in "${sources[@]}"; do
  if grep -qF "$PWD/$source\"" "$build/compile_commands.json"; then
    printf '%s\0' "$source"
  else
    printf 'check_tidy.sh: not built here: %s\n' "$source" >&2
  fi
done | check
