#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the libFuzzer programs of tests/fuzz and runs each for some seconds, one after the other,
# with the corpora there. Inputs that reach new code are kept in build/fuzz/corpus. An input that
# fails is written to build/fuzz; move it to tests/fuzz/corpus with the fix.
#
#   scripts/fuzz.sh [SECONDS]            # default: 300 each
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
seconds=${1:-300}
if [[ ! $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: fuzz.sh [SECONDS], a whole number from 1" >&2
  exit 2
fi

"$root/scripts/install_packages.sh" run fuzz
for target in report config network store image; do
  "$root/scripts/build_preset.sh" fuzz "${target}_fuzzer"
  found="$root/build/fuzz/corpus/$target"
  mkdir -p "$found"
  # The smallest report has 4 KB. Half a minute for one input would be a hang.
  nice "$root/build/fuzz/bin/${target}_fuzzer" -max_total_time="$seconds" -rss_limit_mb=2048 \
    -timeout=30 -max_len=65536 -print_final_stats=1 -artifact_prefix="$root/build/fuzz/" \
    -dict="$root/tests/fuzz/$target.dict" "$found" "$root/tests/fuzz/corpus/$target"
done
