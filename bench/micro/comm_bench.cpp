// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Times every collective of the shm backend, over processes and threads, with blocking calls in
// registered memory. The time is that of the slowest rank after a barrier.
//
//   comm_bench --benchmark_filter=all_reduce/processes/ranks:2
//
// Columns as in nccl-tests: size_B (all_gather, reduce_scatter, scatter and gather: of the whole),
// count, algbw and busbw in GB/s (10^9), and wrong: the number of wrong elements over all ranks,
// before and after the timed runs. Any value but 0 there makes the times worthless.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>

#include "base/math.h"
#include "bench/micro/comm_world.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {
namespace {

struct Setting {
  const CollectiveCase& collective;
  RankKind kind;
  std::size_t bytes;
};

void measure(benchmark::State& state, const Setting& setting, const CpuPlacement& placement) {
  const std::size_t ranks = placement.device_cores.size();
  const std::size_t count =
      whole_count(setting.collective, setting.bytes, DataType::fp32, static_cast<int>(ranks));
  CommWorld world(setting.kind, placement, setting.collective, count);
  std::size_t wrong = world.count_wrong();
  double total_s = 0;
  for ([[maybe_unused]] auto _ : state) {
    const double time_s = world.run();
    state.SetIterationTime(time_s);
    total_s += time_s;
  }
  wrong += world.count_wrong();
  const double bytes = static_cast<double>(count * sizeof(float));
  state.counters["size_B"] = bytes;
  state.counters["count"] = static_cast<double>(count);
  if (setting.collective.moves_data() && total_s > 0) {
    const double mean_s = total_s / static_cast<double>(state.iterations());
    const double algbw = report::algorithm_bandwidth_gb_per_s(bytes, mean_s);
    state.counters["algbw_GB_per_s"] = algbw;
    state.counters["busbw_GB_per_s"] =
        algbw *
        report::bus_bandwidth_factor(std::string(setting.collective.name), static_cast<int>(ranks));
  }
  state.counters["wrong"] = static_cast<double>(wrong);
}

void add_benchmarks() {
  // This comes before any rank is pinned: pinning narrows the cores that this process may use.
  const CpuTopology topology = read_cpu_topology();
  constexpr std::size_t kSimpleCnnBytes = 421'642 * sizeof(float);
  for (const CollectiveCase& collective : collective_cases()) {
    for (const RankKind kind : {RankKind::processes, RankKind::threads}) {
      for (const int ranks : {2, 4}) {
        const CpuPlacement placement = place_cpu_devices(topology, ranks, 1);
        for (const std::size_t bytes :
             {std::size_t{4} << 10, std::size_t{64} << 10, kSimpleCnnBytes, 25 * kMiB}) {
          const bool is_barrier = !collective.moves_data();
          if (is_barrier && bytes != 4 << 10) continue;
          const Setting setting{collective, kind, is_barrier ? 0 : bytes};
          const std::string name = fmt::format(
              "{}/{}/ranks:{}/bytes:{}", collective.name,
              kind == RankKind::processes ? "processes" : "threads", ranks, setting.bytes);
          benchmark::RegisterBenchmark(
              name.c_str(),
              [setting, placement](benchmark::State& state) { measure(state, setting, placement); })
              ->UseManualTime()
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ddpbench::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  ddpbench::bench::add_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
