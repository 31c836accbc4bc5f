#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# A part of scripts/gpu_suite.sh, which sources it: writes the head of the summary, and what follows
# the rows of the stages. Uses the variables of its options and of scripts/gpu_machine.sh.
# shellcheck disable=SC2154

# Prints the commit of the measured program: what a program from an earlier build says of itself,
# else the commit of these sources by the rules of cmake/WriteVersion.cmake. Git does not trust a
# checkout of another user, such as a copy in a container. A copy inside another project's checkout
# has no commit of that project.
describe_commit() {
  local program="$build/bin/ddpbench" built top git=(git -c "safe.directory=$root" -C "$root")
  if ! wanted build && [[ -x $program ]]; then
    built=$(timeout 30 "$program" --version 2>/dev/null | sed -n 's/^ddpbench [^ ]* (\(commit \)\{0,1\}\(.*\))$/\2/p')
    printf '%s' "${built:-unknown: $program does not say}"
    return
  fi
  top=$("${git[@]}" rev-parse --show-toplevel 2>/dev/null || true)
  if [[ -n $top && $(realpath "$top") == "$(realpath "$root")" ]]; then
    "${git[@]}" describe --always --dirty
  else
    printf '%s' "${commit:-unknown}"
  fi
}

# Begins a new summary when there is a build. Other calls with the same --out append to it.
begin_summary() {
  local title='# ddpbench on this GPU'
  if ! wanted build && [[ -s $out/summary.md ]]; then
    title=$'\n'"# Later: ${parts//,/, }"
  else
    rm -f "$out/summary.md"
  fi
  {
    printf '%s\n\n' "$title"
    printf -- '- commit: %s\n' "$(describe_commit)"
    printf -- '- date: %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
    printf -- '- GPU: %s\n' "${gpus:-none, --build-only}" | sed '2,$s/^/- GPU: /'
    printf -- '- toolkit: %s, architectures %s\n' "$("$nvcc" --version | grep release)" \
      "${architectures:-of the toolkit}"
    printf '\n| stage | result | seconds | remark |\n| :-- | :-- | --: | :-- |\n'
  } >>"$out/summary.md"
}

# Prints Google Benchmark's JSON in "$1" as a table: the share of each operation in the bandwidth of
# the larger copy, and its rate.
operations_table() {
  "$python" - "$1" <<'PYTHON'
import json, sys
print("| operation | microseconds | counted bytes | share of copy | TFLOP/s |")
print("| :-- | --: | --: | --: | --: |")
text = open(sys.argv[1]).read()
try:
    runs = json.loads(text)["benchmarks"]
except ValueError:  # stopped before the end: take what is complete
    runs = json.loads(text[:text.rindex("\n    }") + 6] + "]}")["benchmarks"]
copies = [run["bytes_per_s"] for run in runs if run["name"].startswith("copy/") and "bytes_per_s" in run]
for run in runs:
    name = run["name"].split("/iterations:")[0]
    if run.get("error_occurred"):
        print(f"| {name} | failed: {run['error_message']} | | | |")
        continue
    share = f"{run['bytes_per_s'] / copies[-1]:.0%}" if copies else ""
    rate = f"{run['FLOP_per_s'] / 1e12:.3g}" if "FLOP_per_s" in run else ""
    print(f"| {name} | {run['real_time']:.1f} | {run['bytes']:.4g} | {share} | {rate} |")
PYTHON
}

# Prints runs of training in one table. If a report cannot be read, the others are still shown.
reports_tables() {
  local report trained=() collectives=()
  for report in "$@"; do
    case ${report##*/} in
      comm-*) collectives+=("$report") ;;
      *) trained+=("$report") ;;
    esac
  done
  if ((${#trained[@]} > 0)) && ! "$build/bin/ddpbench" show "${trained[@]}" --format=markdown; then
    for report in "${trained[@]}"; do
      "$build/bin/ddpbench" show "$report" --format=markdown || printf '\n%s cannot be shown\n\n' "${report##*/}"
    done
  fi
  for report in "${collectives[@]}"; do
    printf '\n```text\n'
    "$build/bin/ddpbench" show "$report" || printf '%s cannot be shown\n' "${report##*/}"
    printf '```\n'
  done
}

# Shows only the reports of this call's stages: the folder may have others, of an earlier call.
end_summary() {
  local file operations="$out/micro/operations.json" reports=() operated=no
  for file in "${written[@]}"; do
    case $file in
      "$operations") operated=yes ;;
      *) reports+=("$file") ;;
    esac
  done
  if ((${#reports[@]} > 0)); then
    {
      printf '\n## Reports\n\n'
      reports_tables "${reports[@]}"
    } >>"$out/summary.md" 2>>"$out/show.log"
  fi
  if [[ $operated == yes ]]; then
    {
      printf '\n## Operations\n\n'
      operations_table "$operations" || printf 'cannot be shown\n'
    } >>"$out/summary.md" 2>>"$out/show.log"
  fi
  printf '\n%s failed, %s without enough time\n' "$failures" "$unfinished" >>"$out/summary.md"
  say "of the stages above $failures failed, and for $unfinished there was not time enough; $out/summary.md"
}
