#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds a release, and runs ddpbench with the arguments given; without any,
# a short comparison of the four strategies on MNIST (configs/quick.json).
#
#   ./run.sh [ddpbench arguments]          # ./run.sh --help lists them
#
# Works from any folder; reports are written to the working directory. stdout and the exit code are
# ddpbench's own, everything about installing and building goes to stderr.
set -euo pipefail

root="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

has_preset() { grep -qF "\"name\": \"$1\"" "$root/CMakePresets.json"; }

# Prints the first part of the CUDA module's needs that is not here; nothing when all are.
missing_for_cuda() {
  local name
  command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]] || { printf 'nvcc'; return; }
  for name in cudnn.h nccl.h; do
    if [[ -z $(find /usr/include /usr/local/include /usr/local/cuda/include -name "$name" \
      -print -quit 2>/dev/null) ]]; then
      printf '%s' "$name"
      return
    fi
  done
}

# Sets `preset` and `why`.
choose_preset() {
  preset=cpu-release
  if ! has_preset cuda-release; then
    why="CPU devices"
    return
  fi
  why="$(missing_for_cuda)"
  if [[ -n $why ]]; then
    why="CPU devices only, for CUDA there is no $why here"
  else
    preset=cuda-release
    why="CPU and CUDA devices"
  fi
}

"$root/scripts/install_packages.sh" run
choose_preset
printf 'run.sh: preset %s (%s)\n' "$preset" "$why" >&2
"$root/scripts/build_preset.sh" "$preset" ddpbench
if (($# == 0)); then set -- --config=quick; fi
exec "$root/build/$preset/bin/ddpbench" "$@"
