#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# What only a GPU can show, in one go and within ten minutes: configures, builds, runs all
# tests labelled `gpu`, then the benchmarks, then compute-sanitizer over the kernels' tests. Leaves logs,
# reports and summary.md in one folder, and goes on after a stage that failed; of a build that failed,
# with what was built. Each of these parts has a share of the time and what those before it left; within a
# part the more important comes first.
#
#   scripts/gpu_suite.sh [OPTION]...
#     --out DIR               where everything goes (default: gpu-suite-<UTC time>); calls with one DIR and
#                             without build go on with its summary.md, and replace reports that they write
#     --archive FILE          and once more as one archive, renewed after each part (default: DIR.tar.gz)
#     --prefix DIR|FILE       packages from scripts/unpack_packages.sh, instead of installed ones
#     --python PYTHON         interpreter beside whose packages cuDNN, NCCL and PyTorch are looked for
#                             (default: python3); what it has not is taken from the system
#     --architectures LIST    of GPUs, as "80;90" (default: those of the GPUs that are here)
#     --data-dir DIR          data sets (default: MNIST is synthesised, and no test of its accuracy)
#     --build-dir DIR         default: build/gpu-suite
#     --jobs N                compilers at once (default: one a processor)
#     --minutes N             for everything together (default: 10)
#     --parts LIST            of build,tests,benchmarks,sanitizers (default: all of them); without build
#                             with what an earlier call built
#     --commit ID             of these sources, where they are a copy without git
#     --quick                 fewer steps, PyTorch without inductor, and memcheck without racecheck
#     --build-only            without a GPU: configure, build, and the CUDA parts' tests that need none;
#                             not together with --parts
#
# Exit: 0 all stages did well; 1 one failed, or there was no time left for it; 2 wrong usage; 3 no GPU,
# or no CUDA toolkit.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
out="gpu-suite-$(date -u +%Y%m%dT%H%M%SZ)"
build="$root/build/gpu-suite"
prefix='' architectures='' data_dir='' python=python3 archive='' commit=''
jobs=$(nproc) minutes=10 quick=no build_only=no
failures=0 unfinished=0 written=()
all_parts=(build tests benchmarks sanitizers)
parts=$(IFS=, && printf '%s' "${all_parts[*]}") parts_given=no
# Shares of the time, divided among the parts that are left. The compiler needs most of it.
declare -A share_of=([build]=60 [tests]=18 [benchmarks]=12 [sanitizers]=10 [tests-cpu]=15)
parts_left=() part_deadline=0

say() { printf 'gpu_suite.sh: %s\n' "$*" >&2; }
die() {
  say "${*:2}"
  exit "$1"
}

# shellcheck source=scripts/gpu_machine.sh
source "$root/scripts/gpu_machine.sh"
# shellcheck source=scripts/gpu_summary.sh
source "$root/scripts/gpu_summary.sh"

parse_options() {
  local option
  while (($# > 0)); do
    option=$1
    shift
    case $option in
      --quick) quick=yes && continue ;;
      --build-only) build_only=yes && continue ;;
      -h | --help)
        sed -n '5,/^# Exit/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
        exit 0
        ;;
      --*=*) set -- "${option#*=}" "$@" && option=${option%%=*} ;;
    esac
    (($# > 0)) || die 2 "$option needs a value, or is not known (--help lists what is)"
    case $option in
      --out) out=$1 ;;
      --archive) archive=$1 ;;
      --parts) parts=$1 parts_given=yes ;;
      --commit) commit=$1 ;;
      --prefix) prefix=$1 ;;
      --python) python=$1 ;;
      --architectures) architectures=$1 ;;
      --data-dir) data_dir=$1 ;;
      --build-dir) build=$1 ;;
      --jobs) jobs=$1 ;;
      --minutes) minutes=$1 ;;
      *) die 2 "unknown option $option (--help lists what is known)" ;;
    esac
    shift
  done
  [[ $jobs =~ ^[1-9][0-9]*$ ]] || die 2 "--jobs=$jobs is no number of compilers"
  [[ $minutes =~ ^[1-9][0-9]*$ ]] || die 2 "--minutes=$minutes is no number of minutes"
  [[ -z $prefix || -e $prefix ]] || die 2 "--prefix=$prefix is not there; scripts/unpack_packages.sh makes it"
  [[ -z $data_dir || -d $data_dir ]] || die 2 "--data-dir=$data_dir is no folder"
  [[ $commit =~ ^([0-9a-f]{40})?$ ]] || die 2 "--commit=$commit is no commit's 40 digits"
  [[ -z $archive || -d $(dirname "$archive") ]] || die 2 "there is no folder for --archive=$archive"
  check_parts
}

check_parts() {
  local names
  [[ $build_only == no || $parts_given == no ]] || die 2 "--build-only goes without --parts: it has its own"
  names=$(IFS='|' && printf '%s' "${all_parts[*]}")
  [[ $parts =~ ^($names)(,($names))*$ ]] ||
    die 2 "--parts=$parts: name some of ${all_parts[*]}, with commas between them and nothing else"
}

wanted() { [[ ,$parts, == *,$1,* ]]; }

# ---- stages ----

# part NAME: begins a part. Its stages share its part of the remaining time, until `part_deadline`.
# Puts the results of the part before into the archive.
part() {
  local name sum=0
  pack
  for name in "${parts_left[@]}"; do sum=$((sum + share_of[$name])); done
  part_deadline=$((SECONDS + (deadline - SECONDS) * share_of[$1] / sum))
  parts_left=("${parts_left[@]:1}")
}

# Packs all files into one archive. A stopped script leaves the last complete one.
pack() {
  if ! tar --create --gzip --file "$archive.new" --directory "${out%/*}/" "${out##*/}" ||
    ! mv -f "$archive.new" "$archive"; then
    say "$archive cannot be written"
  fi
}

# stage NAME SECONDS COMMAND...: runs the command with its output in NAME.log, for at most so many
# seconds and within the time of its part. Sets `result`; adds a row to the summary. A stage without
# time is not counted as failed.
stage() {
  local name=$1 limit=$2 begin=$SECONDS status=0 remark='' log=''
  shift 2
  local left=$((part_deadline - SECONDS)) short=no
  if ((left < limit)); then limit=$left short=yes; fi
  if ((limit < 5)); then
    result="not run: no time left"
  else
    say "$name (at most $limit s)"
    log=$out/$name.log # not the log of an earlier call
    timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1 </dev/null || status=$?
    case $status in
      0) result=ok ;;
      124 | 137)
        result="failed: stopped after $limit s"
        if [[ $short == yes ]]; then result="not finished: no time left after $limit s"; fi
        ;;
      *) result="failed ($status)" ;;
    esac
  fi
  case $result in
    failed*) failures=$((failures + 1)) ;;
    not*) unfinished=$((unfinished + 1)) ;;
  esac
  if [[ -z $log ]]; then
    say "$name: $result"
  elif [[ $result != ok ]]; then
    say "$name: $result; the end of $log:"
    tail -n 12 "$log" >&2 2>/dev/null || true
  fi
  if [[ -s $log ]]; then
    remark=$(grep -E 'tests passed|  PASSED  |ERROR SUMMARY|RACECHECK SUMMARY|^error:' "$log" | tail -n 1 || true)
    if [[ $result != ok && -z $remark ]]; then
      remark=$(grep -v '^ *$' "$log" | tail -n 1 | cut -c 1-200 || true)
    fi
  fi
  row "$name" "$result" "$((SECONDS - begin))" "$remark"
}

row() { printf '| %s | %s | %s | %s |\n' "$1" "$2" "$3" "${4//|/\\|}" >>"$out/summary.md"; }
skip() {
  say "$1: skipped, $2"
  row "$1" skipped "" "$2"
}

# writing FILE NAME SECONDS COMMAND...: a stage whose command writes FILE, which is then added to
# `written`. It replaces the file of an earlier call, which stays if there was no time.
writing() {
  local file=$1
  shift
  if [[ -e $file ]]; then mv -f "$file" "$file.earlier"; fi
  stage "$@"
  if [[ -e $file ]]; then written+=("$file"); fi
  if [[ $result == "not run"* && -e $file.earlier ]]; then mv -f "$file.earlier" "$file"; fi
  if [[ -e $file.earlier ]]; then rm -f "$file.earlier"; fi
}

# bench NAME OPTION...: writes one report into the folder reports/.
bench() {
  local name=$1 report="$out/reports/$1.json"
  shift
  writing "$report" "bench-$name" 90 "$build/bin/ddpbench" "$@" --quiet "--json=$report"
}

run_benchmarks() {
  local steps=300 epochs=5 round observe servers ranks data=()
  if [[ $quick == yes ]]; then steps=60 epochs=1; fi
  if [[ -n $data_dir ]]; then data=("--data-dir=$data_dir"); fi
  mkdir -p "$out/reports"
  local common=(--config=mnist --device=cuda --epochs=1 "--steps=$steps" "${data[@]}")
  bench mnist --strategy=single --config=mnist --device=cuda "--epochs=$epochs" --batch-size=256 \
    --residency=device "${data[@]}"
  bench single-b256-resident "${common[@]}" --strategy=single --batch-size=256 --residency=device
  bench single-b4096-bf16 "${common[@]}" --strategy=single --batch-size=4096 --precision=bf16 \
    --residency=device
  run_pytorch "${common[@]}"
  run_networks "$steps"
  run_single_operations
  run_collectives
  # In turn, so that warming up or throttling of the GPU affects both.
  for round in 1 2; do
    for observe in on off; do
      bench "single-b256-observe-$observe-$round" "${common[@]}" --strategy=single --batch-size=256 \
        "--observe=$observe"
    done
  done
  bench graphs "${common[@]}" --strategy=single,ddp --batch-size=256 --cuda-graph=on,off
  for ranks in 2 4; do
    bench "strategies-$ranks-oversubscribed" "${common[@]}" --strategy=single,dp,ddp,ps "--gpus=$ranks" \
      --backend=shm --oversubscribe --batch-size=256
  done
  bench ddp-2-nccl-oversubscribed "${common[@]}" --strategy=ddp --gpus=2 --backend=nccl --oversubscribe \
    --batch-size=256
  for servers in cuda cpu; do
    bench "ps-servers-$servers" "${common[@]}" --strategy=ps --gpus=1 --servers=1 --batch-size=256 \
      "--server-device=$servers"
  done
}

# Measures networks whose time is that of cuDNN's convolutions and of batch norm, also in PyTorch.
run_networks() {
  local name precision config
  mkdir -p "$out/configs"
  for name in resnet50 resnet18; do
    precision=bf16 config="$out/configs/$name.json"
    if [[ $name == resnet18 ]]; then precision=tf32; fi
    printf '{"model": "%s"}\n' "$name" >"$config"
    local run=("--config=$config" --device=cuda --batch-size=32 "--precision=$precision" --epochs=1
      "--steps=$(($1 / 6))")
    bench "$name-b32-$precision" "${run[@]}" --strategy=single
    if has_pytorch; then
      run_peer "pytorch-$name-b32-$precision-cuda-graphs" "${run[@]}" --compile=cuda-graphs
    fi
  done
}

# Measures single operations. Their JSON is Google Benchmark's, so it is not in reports/.
run_single_operations() {
  local program="$build/bin/ops_bench" launches=32 times="$out/micro/operations.json"
  if [[ ! -x $program ]]; then
    skip bench-operations "Google Benchmark was not found (libbenchmark-dev)"
    return
  fi
  if [[ $quick == yes ]]; then launches=16; fi
  mkdir -p "$out/micro"
  writing "$times" bench-operations 120 "$program" --device=cuda "--launches=$launches" \
    "--benchmark_out=$times" --benchmark_out_format=json
}

# Measures shared memory between two ranks on the first GPU, threads and processes, with 100 MB among
# the sizes; and NCCL between two ranks there, to show that it works, not how fast it is.
run_collectives() {
  local mode iterations=50 shared=(--device=cuda --ranks=2 --oversubscribe)
  local first=${CUDA_VISIBLE_DEVICES:-0}
  local -x CUDA_VISIBLE_DEVICES=${first%%,*}
  if [[ $quick == yes ]]; then iterations=20; fi
  for mode in thread process; do
    bench "comm-shm-$mode" comm "${shared[@]}" --backend=shm "--mode=$mode" \
      --sizes=4K..64M*4,100000000 "--iterations=$iterations"
    bench "comm-shm-$mode-all" comm "${shared[@]}" --backend=shm "--mode=$mode" --op=all \
      --sizes=4M --iterations=10
  done
  bench comm-nccl comm "${shared[@]}" --backend=nccl --op=all --sizes=4K,4M --iterations=10
}

# Sets `peer`. Says once why there is none.
peer='' no_peer=''
has_pytorch() {
  local reason
  [[ -z $peer ]] || return 0
  [[ -z $no_peer ]] || return 1
  if [[ ! -f $root/bench/peers/pytorch_report.py ]]; then
    no_peer="bench/peers/pytorch_report.py is not here"
  elif ! reason=$(timeout 90 "$python" -c \
    'import torch; torch.cuda.is_available() or exit("PyTorch finds no CUDA device")' 2>&1); then
    no_peer="$python has no PyTorch with CUDA: ${reason##*$'\n'}"
  else
    peer="$root/bench/peers/pytorch_report.py"
    return
  fi
  skip bench-pytorch "$no_peer"
  return 1
}

run_pytorch() {
  if has_pytorch; then
    local variant variants=(none cuda-graphs inductor)
    if [[ $quick == yes ]]; then variants=(none cuda-graphs); fi # inductor compiles for a minute
    for variant in "${variants[@]}"; do
      run_peer "pytorch-b256-$variant" "$@" --batch-size=256 --precision=tf32 "--compile=$variant"
    done
    run_peer pytorch-b4096-bf16 "$@" --batch-size=4096 --precision=bf16
  fi
}

# run_peer NAME OPTION...: the same as `bench` for the PyTorch peer, with its data on the device while
# the host runs ahead.
run_peer() {
  local name=$1 report="$out/reports/$1.json" like=(--strategy=single --gpus=1 --residency=device --pace=free)
  shift
  writing "$report" "bench-$name" 120 "$python" -B "$peer" "$@" "${like[@]}" "--json=$report"
}

# Runs whole programs: starting CUDA costs more than most tests. They have the label `gpu`. Of those
# that take long, several processes run at once.
run_gpu_tests() {
  local program name
  if [[ -n $data_dir ]]; then
    local -x DDPBENCH_TEST_DATA_DIR
    DDPBENCH_TEST_DATA_DIR=$(cd "$data_dir" && pwd)
  fi
  mkdir -p "$out/tests"
  # The program that forks most processes, each of which makes a context, is last.
  for name in runtime ops comm_threads program comm_processes; do
    program="$build/bin/cuda_${name}_gpu_tests"
    if [[ ! -x $program ]]; then
      fail_row "tests-$name" "it was not built: see build.log"
      continue
    fi
    case $name in
      ops | program | comm_processes)
        stage "tests-$name" 240 "$root/scripts/run_shards.sh" 4 "$out/tests/$name" "$program"
        ;;
      *) stage "tests-$name" 240 "$program" "--gtest_output=xml:$out/tests/$name.xml" ;;
    esac
    check_gpu_tests_ran "$name"
  done
  for program in "$build"/bin/cuda_*gpu_tests; do
    name=${program##*/cuda_}
    [[ ! -x $program || -e $out/tests-${name%_gpu_tests}.log || $unfinished -gt 0 ]] ||
      fail_row "tests-${name%_gpu_tests}" "gpu_suite.sh does not know $program"
  done
}

fail_row() {
  failures=$((failures + 1))
  say "$1: failed, $2"
  row "$1" failed "" "$2"
}

# Skipped tests count as passed. That is right without a second GPU, and wrong without any.
check_gpu_tests_ran() {
  local log="$out/tests-$1.log" skipped
  [[ $result == ok ]] || return 0
  if grep -q 'needs a GPU' "$log" || ! grep -q '^\[       OK \]' "$log"; then
    fail_row "tests-$1-ran" "its tests skipped, or there are none: see tests-$1.log"
  fi
  skipped=$(grep -A 1 ': Skipped$' "$log" | grep -v -e ': Skipped$' -e '^--$' | sort -u | paste -sd';' || true)
  if [[ -n $skipped ]]; then row "tests-$1-skipped" "skipped in part" "" "$skipped"; fi
}

# Prints the tests of program $2 for tool $1 in sanitized_tests.txt, as a filter of GoogleTest.
sanitized() {
  awk -v tool="$1" -v program="$2" '$2 == program && ("," $1 ",") ~ ("," tool ",") { print $3 }' \
    "$root/scripts/sanitized_tests.txt" | paste -sd:
}

run_sanitizers() {
  local sanitizer tool program filter tools=(memcheck racecheck)
  find_sanitizer
  if [[ -z $sanitizer ]]; then
    skip sanitizers "compute-sanitizer is not here"
    return
  fi
  if [[ $quick == yes ]]; then tools=(memcheck); fi
  for tool in "${tools[@]}"; do
    for program in ops comm_threads runtime; do
      filter=$(sanitized "$tool" "cuda_${program}_gpu_tests")
      [[ -n $filter ]] || continue
      stage "$tool-$program" 120 "$sanitizer" "--tool=$tool" --error-exitcode=9 \
        "$build/bin/cuda_${program}_gpu_tests" "--gtest_filter=$filter"
      [[ $result != ok ]] || grep -q '^\[       OK \]' "$out/$tool-$program.log" ||
        fail_row "$tool-$program-ran" "none of its tests in sanitized_tests.txt ran"
    done
  done
}

# Sets `result`. A program that does not compile does not stop the others. Programs of an earlier
# build are removed, also if the configuration fails.
build() {
  local targets=(ddpbench ddpbench_cuda cuda_gpu_tests) keep_going=-k program
  plan_configure
  for program in "$build"/bin/{ddpbench,ops_bench,cuda_*tests} "$build/lib/ddpbench/libddpbench_cuda.so"; do
    rm -f "$program"
  done
  stage configure 120 cmake "${configure[@]}"
  [[ $result == ok ]] || return 0
  if [[ $build_only == yes ]]; then targets+=(cuda_tests); fi
  if [[ -e $build/build.ninja ]]; then keep_going=-k0; fi
  stage build $((60 * minutes)) cmake --build "$build" --parallel "$jobs" --target "${targets[@]}" -- "$keep_going"
}

run_parts() {
  if wanted build; then
    part build
    build
  fi
  if [[ ! -x $build/bin/ddpbench || ! -e $build/lib/ddpbench/libddpbench_cuda.so ]]; then
    fail_row program "without $build/bin/ddpbench and its module there is nothing to run"
    return
  fi
  if [[ $build_only == yes ]]; then
    part tests-cpu
    stage tests-cpu $((60 * minutes)) ctest --test-dir "$build/tests/cuda" --output-on-failure --parallel "$jobs" -LE gpu
    return
  fi
  if wanted tests; then part tests && run_gpu_tests; fi
  if wanted benchmarks; then part benchmarks && run_benchmarks; fi
  if wanted sanitizers; then part sanitizers && run_sanitizers; fi
}

main() {
  local name
  parse_options "$@"
  find_gpus
  find_toolkit
  mkdir -p "$out" "$build"
  out=$(cd "$out" && pwd)
  archive=${archive:-$out.tar.gz}
  deadline=$((SECONDS + 60 * minutes))
  for name in "${all_parts[@]}"; do
    if wanted "$name"; then parts_left+=("$name"); fi
  done
  if [[ $build_only == yes ]]; then parts=build parts_left=(build tests-cpu); fi
  begin_summary
  run_parts
  end_summary
  pack
  ((failures + unfinished == 0)) || return 1
}

# On one line, so that this file may change while it runs.
main "$@"; exit
