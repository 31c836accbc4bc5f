#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs a program of GoogleTest in several processes at once, each with its share of the tests, and
# prints their output one after another, those that failed last, or how many tests passed. A test on
# a GPU waits more than it computes: for contexts, searches and other processes.
#
#   scripts/run_shards.sh SHARDS XML PROGRAM [OPTION]...   # XML: results go to XML-0.xml and so on
#
# Exit: 0 all passed; 1 not all; 2 wrong usage.
set -euo pipefail

if (($# < 3)) || ! [[ $1 =~ ^[1-9][0-9]*$ ]]; then
  echo "run_shards.sh: usage: run_shards.sh SHARDS XML PROGRAM [OPTION]..." >&2
  exit 2
fi
shards=$1 xml=$2 pids=() passed=() failed=()
shift 2
logs=$(mktemp -d "${TMPDIR:-/tmp}/ddpbench-shards.XXXXXX")

print_logs() {
  local i
  for i in "$@"; do cat "$logs/$i"; done
}

# What a test that hung had printed tells which one it is. The wait behind it lets `timeout` kill
# this script together with processes that do not end.
# shellcheck disable=SC2317  # called by a trap
stop() {
  trap - TERM INT
  kill "${pids[@]}" 2>/dev/null || true
  print_logs "${!pids[@]}"
  rm -rf --one-file-system "$logs"
  wait
  exit 143
}
trap stop TERM INT

for ((i = 0; i < shards; ++i)); do
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$@" "--gtest_output=xml:$xml-$i.xml" >"$logs/$i" 2>&1 &
  pids+=($!)
done
for i in "${!pids[@]}"; do
  if wait "${pids[i]}"; then passed+=("$i"); else failed+=("$i"); fi
done
print_logs "${passed[@]}" "${failed[@]}"
if ((${#failed[@]} == 0)); then
  total=$(cat "$logs"/* | sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' | paste -sd+)
  echo "[  PASSED  ] $((${total:-0})) tests in $shards processes."
fi
rm -rf --one-file-system "$logs"
((${#failed[@]} == 0))
