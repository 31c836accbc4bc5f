#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the libFuzzer programs of tests/fuzz and runs each for some seconds, one after the other,
# from the corpora there. What they find on the way is kept in build/fuzz/corpus; an input that breaks
# something is written to build/fuzz and belongs, once it is mended, into tests/fuzz/corpus.
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
for target in report config; do
  "$root/scripts/build_preset.sh" fuzz "${target}_fuzzer"
  found="$root/build/fuzz/corpus/$target"
  mkdir -p "$found"
  # A report's smallest form has 4 KB; half a minute for one input would be a hang.
  nice "$root/build/fuzz/bin/${target}_fuzzer" -max_total_time="$seconds" -rss_limit_mb=2048 \
    -timeout=30 -max_len=65536 -print_final_stats=1 -artifact_prefix="$root/build/fuzz/" \
    -dict="$root/tests/fuzz/$target.dict" "$found" "$root/tests/fuzz/corpus/$target"
done
