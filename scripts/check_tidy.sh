#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs clang-tidy over the sources that changed since BASE (default: the last commit), or over all.
# It takes seconds for each file, so CI leaves it out. Run it before you submit a change.
#
#   scripts/check_tidy.sh [BASE | --all]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/install_packages.sh run test tidy
if [[ ${1-} == --all ]]; then
  list=(git ls-files -z -- '*.cpp')
else
  list=(git diff -z --name-only --diff-filter=d "${1-HEAD~1}" -- '*.cpp')
fi
mapfile -d '' -t sources < <("${list[@]}")
if ((${#sources[@]} == 0)); then
  printf 'check_tidy.sh: no source changed\n'
  exit 0
fi

# It needs generated headers and the compile commands. Sources that this machine does not build
# (CUDA without its toolkit, fuzzers) have none.
preset=$(scripts/ci_preset.sh)
scripts/build_preset.sh "$preset" all
for source in "${sources[@]}"; do
  if grep -qF "$PWD/$source\"" "build/$preset/compile_commands.json"; then
    printf '%s\0' "$source"
  else
    printf 'check_tidy.sh: not built here: %s\n' "$source" >&2
  fi
done | xargs -0 -r -n 1 -P "$(nproc)" clang-tidy-16 -p "build/$preset" --quiet --warnings-as-errors='*'
