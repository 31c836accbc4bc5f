// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Times every operation of the CUDA backend, forward and backward apart, against the limits of the
// device's memory and arithmetic.
//
//   gpu_ops_bench --benchmark_out=ops.json --benchmark_out_format=json --benchmark_repetitions=5
//   gpu_ops_bench --benchmark_filter=conv1
//
// Events on the device time recorded launches. gpu_bench.h describes the counters. Without the CUDA
// module or a GPU the program says so and exits with 3; it exits with 1 when a benchmark failed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/error.h"
#include "bench/micro/gpu_bench.h"

namespace ddpbench::micro {
namespace {

constexpr int kFailed = 1, kUsage = 2, kNotHere = 3;

std::string module_beside_this_program() {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return (program.parent_path().parent_path() / "lib" / "ddpbench" / kCudaModuleFile).string();
}

void add_options(CLI::App& app, GpuBenchOptions& options) {
  app.footer("Options that begin with --benchmark_ are Google Benchmark's (--benchmark_help).");
  app.add_option("--module", options.module, "the CUDA module")->capture_default_str();
  app.add_option("--device", options.device, "CUDA's number of the GPU")->capture_default_str();
  app.add_option("--l2-bytes", options.l2_bytes, "size of the L2 cache; 0: as the driver says");
  app.add_option("--batches", options.batches, "samples of the library's operations")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--launches", options.launches, "launches in one recording")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "replays that are timed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--gemm", options.gemm, "extent of the GEMM that shows the peak")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--cache", options.cache_directory, "folder of the measured choice of algorithms");
}

void add_context(const GpuBench& bench) {
  benchmark::AddCustomContext("gpu", bench.info().name);
  benchmark::AddCustomContext("streaming_bytes", fmt::format("{:.0f}", bench.streaming_bytes()));
  benchmark::AddCustomContext("launches_per_round", std::to_string(bench.options().launches));
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);  // removes its own options
  GpuBenchOptions options;
  options.module = module_beside_this_program();
  CLI::App app("Benchmarks of a GPU's operations");
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  GpuBench bench(options);
  register_flat_cases(bench);
  register_op_cases(bench);
  add_context(bench);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return bench.failures() == 0 ? 0 : kFailed;
}

}  // namespace
}  // namespace ddpbench::micro

int main(int argc, char** argv) {
  try {
    return ddpbench::micro::run(argc, argv);
  } catch (const ddpbench::UnavailableError& error) {
    fmt::print(stderr, "gpu_ops_bench: skipped: {}\n", error.what());
    return ddpbench::micro::kNotHere;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return ddpbench::micro::kFailed;
  }
}
