// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranges as a profiler gets them. NVTX looks for a profiler once in a process.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <cstdlib>

#include "bench/measure/step_ranges.h"
#include "kernels/runtime/cpu_device.h"
#include "kernels/runtime/range_marker.h"

namespace ddpbench {
namespace {

class CountingObserver final : public PhaseObserver, public nn::LayerObserver {
 public:
  void begin(Phase, Stream&) override { ++begins; }
  void end(Phase, Stream&) override { ++ends; }
  void bucket(const BucketTimes&) override { ++buckets; }
  void begin_call(std::size_t, Stream&) override { ++begins; }
  void end_call(std::size_t, Stream&) override { ++ends; }
  int begins = 0, ends = 0, buckets = 0;
};

// One step: data_wait; forward with two calls; a bucket.
CountingObserver run_step(RangeMarker& marker) {
  const auto device = make_cpu_device({.index = 0, .threads = 1, .cores = {}});
  const auto stream = device->make_stream();
  CountingObserver inner;
  bench::StepRanges ranges(marker, inner);
  ranges.name_calls({"conv1 forward", "linear1 forward"}, &inner);
  { const ScopedPhase wait(&ranges, Phase::data_wait, *stream); }
  {
    const ScopedPhase forward(&ranges, Phase::forward, *stream);
    for (const std::size_t call : {0, 1}) {
      ranges.begin_call(call, *stream);
      ranges.end_call(call, *stream);
    }
  }
  ranges.bucket({});
  return inner;
}

void expect_all_handed_on(const CountingObserver& inner) {
  EXPECT_EQ(inner.begins, 4);
  EXPECT_EQ(inner.ends, 4);
  EXPECT_EQ(inner.buckets, 1);
}

void listen() {
  ASSERT_EQ(::setenv("NVTX_INJECTION64_PATH", FAKE_PROFILER, 1), 0);
  const auto marker = make_nvtx_range_marker();
  EXPECT_TRUE(marker->is_heard());
  expect_all_handed_on(run_step(*marker));
  void* const profiler = ::dlopen(FAKE_PROFILER, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(profiler, nullptr) << "NVTX did not open the profiler";
  const auto log = reinterpret_cast<const char* (*)()>(::dlsym(profiler, "fake_profiler_log"));
  EXPECT_STREQ(log(),
               "domain ddpbench\n"
               "> data_wait\n<\n"
               "> forward\n> conv1 forward\n<\n> linear1 forward\n<\n<\n");
  ::dlclose(profiler);
}

void do_not_listen() {
  ASSERT_EQ(::unsetenv("NVTX_INJECTION64_PATH"), 0);
  const auto marker = make_nvtx_range_marker();
  EXPECT_FALSE(marker->is_heard());
  expect_all_handed_on(run_step(*marker));
}

// Runs `body` in its own process.
void expect_success(void (*body)()) {
  EXPECT_EXIT(
      {
        body();
        std::exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(NvtxRanges, ReachAProfilerNestedAndNamed) { expect_success(listen); }

TEST(NvtxRanges, AreHeardByNobodyWithoutAProfiler) { expect_success(do_not_listen); }

}  // namespace
}  // namespace ddpbench
