#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Tries to break the built program: faults of ranks at random moments, closed descriptors, limits of
# the system, mutated files. Each trial must end with a documented exit code, in time, name the rank
# that was hit, leave a valid report, and nothing else. Prints the counts of each kind of trial (on
# Ctrl-C those so far), and of every miss what repeats it; exits with 1 when there was one
# (docs/reliability.md).
#
#   scripts/fault_trial.sh [SEED] [MINUTES] [--program=FILE] [--sanitized=FILE] [--only=KIND,...]
#       [--repeat=KIND:NUMBER] [--jobs=N] [--keep]
#
# SEED: default 1. MINUTES: default 20, shared by the kinds. --program: default the program of the
# preset that test.sh builds. --sanitized: a program built with ASan and UBSan, which reads every
# sixth mutated file. --repeat: that one trial of SEED, with what the program said.
# --jobs: so many trials, each of the next kind, in place of MINUTES. Needs two cores
# that do little else, since moments are random and limits are times.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
exec python3 -B "$root/scripts/fault_trial/main.py" \
  --default-program="$root/build/$("$root/scripts/ci_preset.sh")/bin/ddpbench" "$@"
