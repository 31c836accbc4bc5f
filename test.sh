#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing (Gloo and Open MPI, too, where the distribution has them), builds everything
# as CI does (release, warnings are errors; preset `ci`, or `ci-cuda` with the CUDA module where its
# toolkit is) and runs every test with ctest, one more at a time than there are cores: many of them
# wait for a deadline or a signal most of their time.
# Tests that need a GPU skip without one. Many tests have deadlines of seconds, and beside others a
# busy machine may starve them: the few that failed run once more, alone. They count as failed when
# they fail again; that they were run twice stands in the output.
#
#   ./test.sh [ctest arguments]            # ./test.sh -R Ring    ./test.sh -L quick    ./test.sh -j1
set -euo pipefail

root="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

"$root/scripts/install_packages.sh" run test engines
preset=$("$root/scripts/ci_preset.sh")
"$root/scripts/build_preset.sh" "$preset" all
cd "$root" # ctest looks for presets in the working directory only
export OMP_WAIT_POLICY=passive # as ranks have it: idle OpenMP threads spin away what other tests need
failed="build/$preset/Testing/Temporary/LastTestsFailed.log"
few=5
rm -f "$failed"
status=0
ctest --preset "$preset" --parallel "$(($(nproc) + 1))" "$@" || status=$?
if ((status == 0)) || [[ ! -f $failed ]] || (($(wc -l <"$failed") > few)); then exit "$status"; fi
printf '\ntest.sh: these failed beside others and run once more, alone:\n'
cat "$failed"
exec ctest --preset "$preset" --parallel 1 --rerun-failed
