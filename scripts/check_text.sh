#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Checks spelling in sources and documents (codespell), and shell scripts (shellcheck).
#
#   scripts/check_text.sh
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/install_packages.sh check
mapfile -d '' -t scripts < <(git ls-files -z -- '*.sh' .ci/run)
shellcheck "${scripts[@]}"
mapfile -d '' -t texts < <(git ls-files -z -- ':!LICENSE' ':!tests')
codespell "${texts[@]}"
# Tests misspell names on purpose, so lines with string literals are left out.
mapfile -d '' -t tests < <(git ls-files -z -- tests ':!tests/fuzz/corpus')
codespell --ignore-regex '.*".*' "${tests[@]}"
