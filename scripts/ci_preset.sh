#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints the preset that tests are built with here: with the CUDA module where its parts are, which
# needs no GPU. Says why on stderr.
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
