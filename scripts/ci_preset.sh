#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints the preset for building the tests on this machine: with the CUDA module if its parts are
# installed, which needs no GPU. Gives the reason on stderr.
#
#   scripts/ci_preset.sh
set -euo pipefail

missing=$("$(dirname "${BASH_SOURCE[0]}")/missing_for_cuda.sh")
if [[ -n $missing ]]; then
  echo "ci_preset.sh: without the CUDA module, there is no $missing here" >&2
  echo ci
else
  echo ci-cuda
fi
