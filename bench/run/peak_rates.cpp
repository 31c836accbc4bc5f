// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/peak_rates.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "kernels/ops/cpu/multiply_adds.h"
#include "kernels/ops/backend.h"

namespace ddpbench::bench {
namespace {

using report::Figure;

// In the first windows a processor may still raise its clock, or lower it for wide vectors.
constexpr std::size_t kWindows = 6, kFirstCounted = 2;
constexpr double kWindow_s = 2e-3;
constexpr std::int64_t kRoundsPerLook = 1000;  // some microseconds between two looks at the clock

using Rates = std::array<double, kWindows>;  // operations a second

bool bind_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  return ::pthread_setaffinity_np(::pthread_self(), sizeof(set), &set) == 0;
}

// The same work over and over: it returns a sum of numbers that are positive.
struct Work {
  std::function<float()> run;
  double flops = 0;
};

Work work_of(const std::string& precision) {
  if (precision == "bf16") {
    return {[] { return ops::cpu::run_bf16_multiply_adds(kRoundsPerLook); },
            static_cast<double>(kRoundsPerLook * ops::cpu::bf16_multiply_add_flops())};
  }
  const ops::cpu::SimdLevel level = ops::cpu::simd_level();
  return {[level] { return ops::cpu::run_multiply_adds(level, kRoundsPerLook, 0.5F, 1); },
          static_cast<double>(kRoundsPerLook * ops::cpu::multiply_add_flops(level))};
}

Rates measure_here(const Work& work) {
  Rates rates{};
  for (double& rate : rates) {
    const double begin_s = steady_s();
    double end_s = begin_s, done = 0;
    while (end_s - begin_s < kWindow_s) {
      // Looking at the sum keeps a compiler from dropping the work.
      if (work.run() > 0) done += work.flops;
      end_s = steady_s();
    }
    rate = done / (end_s - begin_s);
  }
  return rates;
}

// Of all cores together, at the same time; the best window counts, because it is to be a bound.
Figure measure(const std::vector<int>& cores, const Work& work) {
  std::vector<Rates> rates(cores.size());
  std::atomic<bool> begun = false, bound = true;
  std::vector<std::thread> threads;
  std::string failure;
  try {
    for (std::size_t i = 0; i < cores.size(); ++i) {
      threads.emplace_back([&, i] {
        if (!bind_to(cores[i])) bound = false;
        begun.wait(false);
        if (bound) rates[i] = measure_here(work);
      });
    }
  } catch (const std::system_error& error) {
    failure = error.what();
    bound = false;
  }
  begun = true;
  begun.notify_all();
  for (std::thread& thread : threads) thread.join();
  if (!failure.empty()) return Figure::missing("threads could not be started: " + failure);
  if (!bound) return Figure::missing("a thread could not be bound to a device's core");
  double best = 0;
  for (std::size_t window = kFirstCounted; window < kWindows; ++window) {
    double sum = 0;
    for (const Rates& of_core : rates) sum += of_core[window];
    best = std::max(best, sum);
  }
  return Figure::of(best);
}

}  // namespace

Figure PeakRates::of(const TrainingJob& job) {
  if (job.options.device != "cpu") return Figure::missing("the peak of GPUs is not measured");
  const std::string& precision = job.options.precision;
  if (precision == "bf16" && ops::cpu_bf16_uses_amx()) {
    return Figure::missing("the peak of AMX, which computes in bf16 here, is not measured");
  }
  std::vector<int> cores;
  for (int i = 0; i < job.cell.world_size; ++i) {
    const std::vector<int>& own = job.cores.at(static_cast<std::size_t>(i));
    cores.insert(cores.end(), own.begin(), own.end());
  }
  std::ranges::sort(cores);
  if (cores.empty()) return Figure::missing("the devices are bound to no cores");
  if (std::ranges::adjacent_find(cores) != cores.end()) {
    return Figure::missing("the devices share cores");
  }
  const auto [known, added] = known_.try_emplace({cores, precision});
  if (added) known->second = measure(cores, work_of(precision));
  if (!known->second.value) return known->second;
  return Figure::of(*known->second.value / job.cell.world_size);
}

}  // namespace ddpbench::bench
