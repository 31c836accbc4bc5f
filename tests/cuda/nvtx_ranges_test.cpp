// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranges as a profiler gets them. NVTX looks for a profiler once in a process.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <cstdlib>

#include "bench/measure/replica_recorder.h"
#include "kernels/runtime/cpu_device.h"
#include "kernels/runtime/range_marker.h"

namespace ddpbench {
namespace {

// One step: data_wait; forward with two calls; a bucket. Its marks must be those without a
// profiler.
void run_step(RangeMarker& marker) {
  const auto device = make_cpu_device({.index = 0, .threads = 1, .cores = {}});
  const auto stream = device->make_stream();
  bench::ReplicaRecorder recorder(*device, {.ranges = &marker});
  recorder.name_calls({"conv1 forward", "linear1 forward"});
  recorder.begin_step(true, true);
  { const ScopedPhase wait(&recorder, Phase::data_wait, *stream); }
  {
    const ScopedPhase forward(&recorder, Phase::forward, *stream);
    for (const std::size_t call : {0, 1}) {
      recorder.begin_call(call, *stream);
      recorder.end_call(call, *stream);
    }
  }
  recorder.bucket({});
  EXPECT_EQ(recorder.marks().used().size(), 3U);
  EXPECT_EQ(recorder.batch_waits().size(), 1U);
  EXPECT_EQ(recorder.buckets().size(), 1U);
}

void listen() {
  ASSERT_EQ(::setenv("NVTX_INJECTION64_PATH", FAKE_PROFILER, 1), 0);
  const auto marker = make_nvtx_range_marker();
  EXPECT_TRUE(marker->is_heard());
  run_step(*marker);
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
  run_step(*marker);
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
