#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds a release, and runs ddpbench with the arguments given; without any,
# ddpbench makes a short comparison of the four strategies on MNIST (configs/quick.json).
#
#   ./run.sh [ddpbench arguments]          # ./run.sh help options lists them
#
# Works from any folder; reports are written to the working directory. stdout and the exit code are
# ddpbench's own, everything about installing and building goes to stderr.
set -euo pipefail

root="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

# Sets `preset` and `why`. The module takes minutes to build, so it must be of use: there is a driver.
choose_preset() {
  local missing
  preset=cpu-release
  if [[ ! -e /dev/nvidiactl && ! -e /dev/dxg ]]; then
    why="CPU devices, there is no NVIDIA driver here"
    return
  fi
  missing="$("$root/scripts/missing_for_cuda.sh")"
  if [[ -n $missing ]]; then
    why="CPU devices only, for CUDA there is no $missing here"
  else
    preset=cuda-release
    why="CPU and CUDA devices"
  fi
}

"$root/scripts/install_packages.sh" run
choose_preset
printf 'run.sh: preset %s (%s)\n' "$preset" "$why" >&2
"$root/scripts/build_preset.sh" "$preset" programs
exec "$root/build/$preset/bin/ddpbench" "$@"
