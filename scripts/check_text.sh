#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Checks spelling in sources and documents (codespell), shell scripts (shellcheck) and Python sources
# (pyflakes: names that nothing defines, imports that nothing uses).
#
#   scripts/check_text.sh
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/install_packages.sh check
# Also those that are new and not yet added.
list_files() { git ls-files -z --cached --others --exclude-standard -- "$@"; }
mapfile -d '' -t scripts < <(list_files '*.sh' .ci/run)
shellcheck "${scripts[@]}"
mapfile -d '' -t programs < <(list_files '*.py')
pyflakes=$(command -v pyflakes3 || echo pyflakes) # Debian's and Fedora's name
"$pyflakes" "${programs[@]}"
mapfile -d '' -t texts < <(list_files ':!LICENSE' ':!tests')
codespell "${texts[@]}"
# Tests misspell names on purpose, so lines with string literals are left out.
mapfile -d '' -t tests < <(list_files tests ':!tests/fuzz/corpus')
codespell --ignore-regex '.*".*' "${tests[@]}"
