#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# The gate's error rates with real runs: COMPARISONS times the program against itself, each with
# repetitions of its own, then as often against itself with a planted slowness, which every check must
# find. Prints a line a comparison and the counts; exits with 1 when they miss what docs/gate.md
# promises (at most one in twenty flagged, at least eighteen in twenty PASS, every slowness found).
#
#   scripts/gate_real_runs.sh --program=build/cpu-release/bin/ddpbench [--comparisons=20]
#       [--slow-comparisons=5] [--repetitions=5] [--out=DIR] [-- OPTION...]
#
# OPTION... replaces what is run: single and ddp on two devices, MNIST, 100 steps. About 15 minutes
# on two cores that nothing else uses.
set -euo pipefail

here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
program='' comparisons=20 slow=5 repetitions=5 out=ddpbench-gate-real
run=("--strategy=single,ddp" --gpus=2 --config=mnist --device=cpu --epochs=1 --steps=100
  --verify-steps=1)
slowness="slow:rank=1,phase=backward,percent=25"
while [[ $# -gt 0 ]]; do
  case "$1" in
    --program=*) program=${1#*=} ;;
    --comparisons=*) comparisons=${1#*=} ;;
    --slow-comparisons=*) slow=${1#*=} ;;
    --repetitions=*) repetitions=${1#*=} ;;
    --out=*) out=${1#*=} ;;
    --)
      shift
      run=("$@")
      break
      ;;
    *)
      echo "gate_real_runs.sh: unknown argument '$1'" >&2
      exit 2
      ;;
  esac
  shift
done
[[ -x $program ]] || { echo "gate_real_runs.sh: --program=$program is no program" >&2; exit 2; }
mkdir -p "$out"

# compare NAME OPTION...: one comparison; prints its line and leaves its exit code in `code`.
compare() {
  local name=$1
  shift
  code=0
  "$here/ci_gate.sh" --base="$program" --new="$program" --repetitions="$repetitions" \
    --out="$out/$name" "$@" -- "${run[@]}" >"$out/$name.txt" 2>&1 || code=$?
  printf '%-10s exit %d  %s\n' "$name" "$code" "$(tail -n 1 "$out/$name.txt")"
  [[ $code -eq 0 || $code -eq 6 || $code -eq 7 ]] || { cat "$out/$name.txt" >&2; exit "$code"; }
}

passed=0 flagged=0 open=0 found=0
for ((c = 1; c <= comparisons; ++c)); do
  compare "same-$c"
  case $code in
    0) passed=$((passed + 1)) ;;
    6) flagged=$((flagged + 1)) ;;
    7) open=$((open + 1)) ;;
  esac
done
for ((c = 1; c <= slow; ++c)); do
  compare "slow-$c" --new-only="--inject=$slowness"
  [[ $code -ne 6 ]] || found=$((found + 1))
done
echo "the same program: $passed passed, $flagged flagged, $open inconclusive of $comparisons"
echo "slowed down ($slowness): $found found of $slow"
((flagged * 20 <= comparisons && passed * 20 >= 18 * comparisons && found == slow))
