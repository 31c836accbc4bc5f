#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds everything as CI does (preset `ci`: release, warnings are errors)
# and runs every test with ctest, two at a time.
#
#   ./test.sh [ctest arguments]            # ./test.sh -R Ring    ./test.sh -L unit    ./test.sh -j1
set -euo pipefail

root="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

"$root/scripts/install_packages.sh" run test
"$root/scripts/build_preset.sh" ci all
cd "$root" # ctest looks for presets in the working directory only
exec ctest --preset ci --parallel 2 "$@"
