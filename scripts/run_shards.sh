#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs a program of GoogleTest in several processes at once, each with its share of the tests, and
# prints their output one after another, then how many tests passed. A test on a GPU waits more than
# it computes: for contexts, searches and other processes.
#
#   scripts/run_shards.sh SHARDS XML PROGRAM [OPTION]...   # XML: results go to XML-0.xml and so on
#
# Exit: 0 all passed; 1 not all.
set -euo pipefail

(($# >= 3)) || {
  echo "run_shards.sh: usage: run_shards.sh SHARDS XML PROGRAM [OPTION]..." >&2
  exit 2
}
shards=$1 xml=$2 status=0 pids=()
shift 2
logs=$(mktemp -d "${TMPDIR:-/tmp}/ddpbench-shards.XXXXXX")
# Also when it is stopped: what a test that hung had printed tells which one it is.
# shellcheck disable=SC2317  # called by a trap
print_logs() {
  local log
  for log in "$logs"/*; do cat "$log"; done
  rm -rf --one-file-system "$logs"
}
trap print_logs EXIT
trap 'exit 143' TERM INT

for ((i = 0; i < shards; ++i)); do
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$@" "--gtest_output=xml:$xml-$i.xml" >"$logs/$i" 2>&1 &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || status=1; done
if ((status == 0)); then
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$logs"/* | awk '{sum += $1} END {print sum + 0}')
  echo "[  PASSED  ] $passed tests in $shards processes." >"$logs/${shards}-all"
fi
exit "$status"
