#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Fails when the layout of a C++ source differs from .clang-format.
#
#   scripts/check_format.sh [--fix]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/install_packages.sh check
mapfile -d '' -t sources < <(git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh')
if [[ ${1-} == --fix ]]; then
  clang-format -i "${sources[@]}"
elif ! clang-format --dry-run --Werror "${sources[@]}"; then
  printf 'check_format.sh: scripts/check_format.sh --fix puts this right\n' >&2
  exit 1
fi
