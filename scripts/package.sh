#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds Debian packages of a release: ddpbench, with the CUDA module (where its toolkit is)
# ddpbench-cuda, and where Gloo and MPI are ddpbench-gloo and ddpbench-mpi. Prints their paths, one
# on each line; all else goes to stderr.
#
#   scripts/package.sh              # sudo apt install ./build/cpu-release/packages/ddpbench_*.deb
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
"$root/scripts/install_packages.sh" run deb
preset=cpu-release
if [[ -z $("$root/scripts/missing_for_cuda.sh") ]]; then preset=cuda-release; fi
"$root/scripts/build_preset.sh" "$preset" programs
packages="$root/build/$preset/packages"
rm -rf "$packages"
cpack --config "$root/build/$preset/CPackConfig.cmake" >&2
ls "$packages"/*.deb
