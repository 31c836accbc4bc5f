#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Checks whether NEW is worse than BASE on this machine. Runs both programs in turn (base new new
# base ...), so that drift of the machine does not look like a change, and compares the reports with
# `NEW check`.
#
#   scripts/ci_gate.sh --base=build/base/bin/ddpbench --new=build/new/bin/ddpbench \
#       [--repetitions=5] [--out=DIR] [--new-only=OPTION]... [--check=OPTION]... -- OPTION...
#
# Or two trainers of your own, each a command that writes its step times to the file $CSV:
#
#   ddpbench-ci-gate --base='python3 base/train.py $CSV' --new='python3 new/train.py $CSV' \
#       --import=--as=ddp [--import=OPTION]... [the options above]
#
#   --out=DIR          folder for reports and result; is made, and must not hold reports
#   --force            removes those of an earlier gate
#   --import=OPTION    an option of `ddpbench import`, of the ddpbench in the PATH
#   --new-only=OPTION  an option for runs of the new program only (--inject=... tries the gate)
#   --check=OPTION     an option of `ddpbench check` (--max-slowdown=3%)
#   OPTION...          the run: --strategy=single,ddp --gpus=2 --config=mnist --steps=100; or the
#                      collectives: comm --op=all_reduce --sizes=64K..16M*4
#
# Writes DIR/check.json, check.md, check.xml and annotations to DIR/check.github; prints the table.
# Exit code: that of `ddpbench check` (0 passed, 6 a regression, 7 inconclusive, 2 not comparable).
# A failed run is in its report, and check judges it.
set -euo pipefail

base='' new='' repetitions=5 out=ddpbench-gate
force=no judge=''
new_only=() check=() run=() import=()
fail() {
  echo "ci_gate.sh: $1" >&2
  exit 2
}
while [[ $# -gt 0 ]]; do
  case "$1" in
    --base=*) base=${1#*=} ;;
    --new=*) new=${1#*=} ;;
    --repetitions=*) repetitions=${1#*=} ;;
    --out=*) out=${1#*=} ;;
    --force) force=yes ;;
    --import=*) import+=("${1#*=}") ;;
    --new-only=*) new_only+=("${1#*=}") ;;
    --check=*) check+=("${1#*=}") ;;
    --)
      shift
      run=("$@")
      break
      ;;
    *) fail "unknown argument '$1'; the options of the runs follow after --" ;;
  esac
  shift
done
if [[ ${#import[@]} -gt 0 ]]; then
  [[ -n $base && -n $new ]] || fail "--import takes the commands --base=COMMAND and --new=COMMAND"
  [[ ${#run[@]} -eq 0 && ${#new_only[@]} -eq 0 ]] ||
    fail "--import takes no options of a run, and no --new-only: the commands have their own"
  judge=$(type -P ddpbench) || fail "--import needs ddpbench in the PATH"
else
  type -P "$base" >/dev/null || fail "--base=$base is no program"
  type -P "$new" >/dev/null || fail "--new=$new is no program"
  judge=$new
fi
[[ $repetitions =~ ^[1-9][0-9]*$ ]] || fail "--repetitions=$repetitions is no number from 1"
once=(--repetitions=1)
[[ ${run[0]-} == comm ]] && once=() # it makes one anyway
mkdir -p "$out"
[[ $force == no ]] || rm -f "$out"/{base,new}-*.{json,csv} "$out"/check.*
compgen -G "$out/*.json" >/dev/null && fail "$out holds reports already; use --force, or another --out"

# measure NAME PROGRAM OPTION...: a failed run still writes its report. The script stops if there is
# none, or if a signal ended the program (128 and above), as that report is cut short.
measure() {
  local report=$out/$1.json code=0
  shift
  "$@" "${once[@]}" --quiet --json="$report" >"$out/log" 2>&1 || code=$?
  [[ $code -lt 128 && -e $report ]] || { cat "$out/log" >&2; exit "$code"; }
}
# import_of NAME COMMAND
import_of() {
  local csv=$out/$1.csv at
  at=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  rm -f "$csv" # trainers may append
  { CSV=$csv bash -c "$2" && "$judge" import "$csv" --measured-at="$at" "${import[@]}" \
    -o "$out/$1.json"; } >"$out/log" 2>&1 || { cat "$out/log" >&2; fail "$1: '$2' failed"; }
}
measure_side() { # NAME PROGRAM OPTION...
  if [[ ${#import[@]} -gt 0 ]]; then import_of "$1" "$2"; else measure "$@"; fi
}
measure_base() { measure_side "base-$1" "$base" "${run[@]}"; }
measure_new() { measure_side "new-$1" "$new" "${run[@]}" "${new_only[@]}"; }

for ((i = 1; i <= repetitions; ++i)); do
  echo "repetition $i of $repetitions" >&2
  if ((i % 2)); then
    measure_base "$i"
    measure_new "$i"
  else
    measure_new "$i"
    measure_base "$i"
  fi
done

compare() { "$judge" check "$out"/new-*.json --baseline "$out"/base-*.json "${check[@]}" "$@"; }
code=0
compare || code=$?
# Where nothing could be compared (2), the files say so.
if [[ $code -eq 0 || $code -eq 2 || $code -eq 6 || $code -eq 7 ]]; then
  for format in json:json markdown:md junit:xml github:github; do
    compare --format="${format%:*}" -o "$out/check.${format#*:}" --force >/dev/null 2>&1 || true
  done
fi
rm -f "$out/log"
exit "$code"
