#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Measures the gate's error rates with real runs. Compares the program with itself COMPARISONS
# times, and as often with itself with a planted slowness, which every check must find. Every
# comparison has repetitions of its own. Slowed-down runs are made in turn with the others and
# compared with the same base, as they answer another question. Prints a line for each check and the
# counts. Exits with 1 when they miss the promise of docs/gate.md: at most one in twenty flagged, at
# least eighteen in twenty PASS, every slowness found.
#
#   scripts/gate_real_runs.sh --program=build/cpu-release/bin/ddpbench [--comparisons=20]
#       [--slow-comparisons=20] [--repetitions=5] [--out=DIR] [-- OPTION...]
#
# OPTION... replaces the default run: single and ddp on two devices, MNIST, 60 steps. Slowed-down
# runs leave single out. Takes about 20 minutes on two otherwise idle cores. Continues where it was
# stopped, if DIR has finished comparisons.
set -euo pipefail

program='' comparisons=20 slow_comparisons=20 repetitions=5 out=ddpbench-gate-real
run=("--strategy=single,ddp" --gpus=2 --config=mnist --device=cpu --epochs=1 --steps=60
  --verify-steps=1)
slowness="slow:rank=1,phase=backward,percent=25"
fail() {
  echo "gate_real_runs.sh: $1" >&2
  exit 2
}
while [[ $# -gt 0 ]]; do
  case "$1" in
    --program=*) program=${1#*=} ;;
    --comparisons=*) comparisons=${1#*=} ;;
    --slow-comparisons=*) slow_comparisons=${1#*=} ;;
    --repetitions=*) repetitions=${1#*=} ;;
    --out=*) out=${1#*=} ;;
    --)
      shift
      run=("$@")
      break
      ;;
    *) fail "unknown argument '$1'" ;;
  esac
  shift
done
[[ -x $program ]] || fail "--program=$program is no program"
mkdir -p "$out"

# measure FILE OPTION...: makes one run, unless an earlier call of this script made it. A killed run
# leaves a report, too; only a finished one gets the name for which the next call looks.
measure() {
  local file=$1
  shift
  [[ ! -e $file ]] || return 0
  "$program" "$@" --repetitions=1 --quiet --json="$file.part" --force >/dev/null
  mv "$file.part" "$file"
}
measure_base() { measure "$1/base-$2.json" "${run[@]}"; }
measure_same() { measure "$1/same-$2.json" "${run[@]}"; }
measure_slow() {
  [[ $3 -gt $slow_comparisons ]] ||
    measure "$1/slow-$2.json" "${run[@]/#--strategy=*/--strategy=ddp}" --inject="$slowness"
}

# judge FOLDER SIDE: prints a line and sets `code` to the exit code.
judge() {
  code=0
  "$program" check "$1/$2"-*.json --baseline "$1"/base-*.json >"$1/$2.txt" 2>&1 || code=$?
  echo "$1 $2: exit $code, $(tail -n 1 "$1/$2.txt")"
  [[ $code -eq 0 || $code -eq 6 || $code -eq 7 ]] || { cat "$1/$2.txt" >&2; exit "$code"; }
}

counts=(0 0 0 0 0 0 0 0) found=0
for ((c = 1; c <= comparisons; ++c)); do
  folder=$out/$c
  mkdir -p "$folder"
  for ((i = 1; i <= repetitions; ++i)); do
    # The order alternates, so that a steady drift cancels.
    order=(measure_base measure_same measure_slow)
    ((i % 2)) || order=(measure_slow measure_same measure_base)
    for one in "${order[@]}"; do "$one" "$folder" "$i" "$c"; done
  done
  judge "$folder" same
  counts[code]=$((counts[code] + 1))
  ((c <= slow_comparisons)) || continue
  judge "$folder" slow
  [[ $code -ne 6 ]] || found=$((found + 1))
done
slow=$((slow_comparisons < comparisons ? slow_comparisons : comparisons))
echo "the same program: ${counts[0]} passed, ${counts[6]} flagged, ${counts[7]} inconclusive" \
  "of $comparisons"
echo "slowed down ($slowness): $found found of $slow"
((counts[6] * 20 <= comparisons && counts[0] * 20 >= 18 * comparisons && found == slow))
