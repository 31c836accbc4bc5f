#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints the first missing part that the CUDA module needs for its build; nothing if all are there.
#
#   scripts/missing_for_cuda.sh
set -euo pipefail

command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]] || { echo nvcc; exit; }
for name in cudnn.h nccl.h; do
  if [[ -z $(find -L /usr/include /usr/local/include /usr/local/cuda/include -maxdepth 3 \
    -name "$name" -print -quit 2>/dev/null) ]]; then
    echo "$name"
    exit
  fi
done
