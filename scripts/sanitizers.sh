#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds and runs the tests under AddressSanitizer with UndefinedBehaviorSanitizer, and under
# ThreadSanitizer. Not part of CI, as it takes about four times as long as the tests. With the CUDA
# toolkit it includes the CUDA module's sources, on their stand-in for a GPU.
#
#   scripts/sanitizers.sh [asan | tsan] [ctest arguments]       # default: both, one after the other
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
presets=(asan tsan)
case ${1-} in
  asan | tsan)
    presets=("$1")
    shift
    ;;
esac

"$root/scripts/install_packages.sh" run test engines
cd "$root"
suffix=-cuda
if [[ -n $(scripts/missing_for_cuda.sh) ]]; then suffix=; fi
for preset in "${presets[@]}"; do
  # GCC 12's ThreadSanitizer cannot place its shadow memory when addresses are randomised over more
  # than 28 bits. -R switches that off for these processes, also for the build, which runs the test
  # programs to list their cases.
  setarch -R "$root/scripts/build_preset.sh" "$preset$suffix" all
  setarch -R ctest --preset "$preset$suffix" --parallel 2 "$@"
done
