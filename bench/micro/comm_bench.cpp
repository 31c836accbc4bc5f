// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Every collective of the ring backend, over processes and threads, in registered memory, blocking
// calls. Time is that of the slowest rank, from a barrier on.
//
//   comm_bench --benchmark_filter=all_reduce/processes/ranks:2
//
// Columns as nccl-tests: size_B (all_gather, reduce_scatter, scatter and gather: of the whole),
// count, algbw and busbw in GB/s (10^9), and wrong: elements that are not what they should be, over
// all ranks, before and after the timed runs. Anything but 0 there makes the times worthless.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <string>

#include "bench/micro/comm_world.h"

namespace ddpbench::bench {
namespace {

using comm::Communicator;
constexpr comm::CallOptions kBlocking{.after = nullptr, .start = comm::Start::deferred};

double one(int) { return 1; }
double all_but_own(int size) { return (size - 1.0) / size; }
double twice_all_but_own(int size) { return 2 * all_but_own(size); }

std::size_t whole(const Place& p) { return p.count; }
std::size_t whole_on_root(const Place& p) { return p.rank == 0 ? p.count : 0; }
std::size_t part(const Place& p) { return p.count / static_cast<std::size_t>(p.size); }
std::size_t nothing(const Place&) { return 0; }
std::size_t part_of(const Communicator& c, const RankMemory& m) {
  return part({c.rank(), c.size(), m.count});
}

float sum_at(const Place& p, std::size_t index) {
  float sum = 0;
  for (int rank = 0; rank < p.size; ++rank) sum += input_value(rank, index);
  return sum;
}
float of_root(const Place&, std::size_t i) { return input_value(0, i); }
float of_left(const Place& p, std::size_t i) {
  return input_value((p.rank + p.size - 1) % p.size, i);
}
float parts_in_order(const Place& p, std::size_t i) {
  return input_value(static_cast<int>(i / part(p)), i % part(p));
}
std::size_t own_part(const Place& p, std::size_t i) {
  return static_cast<std::size_t>(p.rank) * part(p) + i;
}
float own_part_of_root(const Place& p, std::size_t i) { return input_value(0, own_part(p, i)); }
float own_part_of_sum(const Place& p, std::size_t i) { return sum_at(p, own_part(p, i)); }

void all_reduce(Communicator& c, const RankMemory& m) {
  c.all_reduce({m.in, m.count}, comm::ReduceOp::sum, kBlocking).synchronize();
}
void reduce(Communicator& c, const RankMemory& m) {
  c.reduce({m.in, m.count}, comm::ReduceOp::sum, 0, kBlocking).synchronize();
}
void broadcast(Communicator& c, const RankMemory& m) {
  c.broadcast({m.in, m.count}, 0, kBlocking).synchronize();
}
void all_gather(Communicator& c, const RankMemory& m) {
  c.all_gather({m.in, part_of(c, m)}, {m.out, m.count}, kBlocking).synchronize();
}
void reduce_scatter(Communicator& c, const RankMemory& m) {
  c.reduce_scatter({m.in, m.count}, {m.out, part_of(c, m)}, comm::ReduceOp::sum, kBlocking)
      .synchronize();
}
void scatter(Communicator& c, const RankMemory& m) {
  c.scatter({m.in, m.count}, {m.out, part_of(c, m)}, 0, kBlocking).synchronize();
}
void gather(Communicator& c, const RankMemory& m) {
  c.gather({m.in, part_of(c, m)}, {m.out, m.count}, 0, kBlocking).synchronize();
}
void send_to_right(Communicator& c, const RankMemory& m) {
  const comm::Work sent = c.send({m.in, m.count}, (c.rank() + 1) % c.size(), kBlocking);
  c.recv({m.out, m.count}, (c.rank() + c.size() - 1) % c.size(), kBlocking).synchronize();
  sent.synchronize();
}
void barrier(Communicator& c, const RankMemory&) { c.barrier(kBlocking).synchronize(); }

const std::array<CollectiveCase, 9> kCases = {{
    {"all_reduce", twice_all_but_own, all_reduce, whole, false, sum_at},
    {"reduce", one, reduce, whole_on_root, false, sum_at},
    {"broadcast", one, broadcast, whole, false, of_root},
    {"all_gather", all_but_own, all_gather, whole, true, parts_in_order},
    {"reduce_scatter", all_but_own, reduce_scatter, part, true, own_part_of_sum},
    {"scatter", all_but_own, scatter, part, true, own_part_of_root},
    {"gather", all_but_own, gather, whole_on_root, true, parts_in_order},
    {"send_recv", one, send_to_right, whole, true, of_left},
    {"barrier", one, barrier, nothing, false, of_root},
}};

struct Setting {
  const CollectiveCase& collective;
  RankKind kind;
  std::size_t bytes;
};

void measure(benchmark::State& state, const Setting& setting, const CpuPlacement& placement) {
  const std::size_t ranks = placement.device_cores.size();
  const std::size_t count = setting.bytes / sizeof(float) / ranks * ranks;
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
  const double algbw = total_s > 0 ? bytes * static_cast<double>(state.iterations()) / total_s : 0;
  state.counters["size_B"] = bytes;
  state.counters["count"] = static_cast<double>(count);
  state.counters["algbw_GB_per_s"] = algbw * 1e-9;
  state.counters["busbw_GB_per_s"] =
      algbw * 1e-9 * setting.collective.bus_factor(static_cast<int>(ranks));
  state.counters["wrong"] = static_cast<double>(wrong);
}

void add_benchmarks() {
  // Before any rank is pinned, which narrows what this process may use.
  const CpuTopology topology = read_cpu_topology();
  constexpr std::size_t kSimpleCnnBytes = 421'642 * sizeof(float);
  for (const CollectiveCase& collective : kCases) {
    for (const RankKind kind : {RankKind::processes, RankKind::threads}) {
      for (const int ranks : {2, 4}) {
        const CpuPlacement placement = place_cpu_devices(topology, ranks, 1);
        for (const std::size_t bytes : {std::size_t{4} << 10, std::size_t{64} << 10,
                                        kSimpleCnnBytes, std::size_t{25} << 20}) {
          const bool is_barrier = collective.results == nothing;
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
