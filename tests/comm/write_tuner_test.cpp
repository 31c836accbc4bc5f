// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The choice of stores on a simulated machine. Each mode takes a given time a byte, except right
// after a change of mode, when the memory still is as the other mode left it.
#include "parallel/comm/shm/collectives/reduce_kernels.h"

#include <gtest/gtest.h>

namespace ddpbench::comm {
namespace {

class Machine {
 public:
  double cached_s = 1e-9, non_temporal_s = 1e-9;
  double after_change_s = 1e-12;  // misleadingly fast

  // Runs operations and returns how many of them used non-temporal stores.
  int run(WriteTuner& tuner, int operations) {
    int non_temporal = 0;
    for (int i = 0; i < operations; ++i) {
      const WriteMode mode = tuner.begin_operation();
      non_temporal += mode == WriteMode::non_temporal;
      const double steady_s = mode == WriteMode::cached ? cached_s : non_temporal_s;
      const double byte_s = mode == before_ ? steady_s : after_change_s;
      before_ = mode;
      if (tuner.wants_record()) tuner.record(1'000'000, byte_s * 1e6);
    }
    return non_temporal;
  }

 private:
  WriteMode before_ = WriteMode::cached;
};

// Trials are 2 of 64 operations.
TEST(WriteTuner, StaysWithTheCacheWhereStreamingGainsNothing) {
  Machine machine;
  WriteTuner tuner;
  EXPECT_EQ(machine.run(tuner, 640), 20);
}

TEST(WriteTuner, StreamsFromTheFirstTrialOnWhereStoresThroughTheCacheAreSlow) {
  Machine machine;
  machine.cached_s = 8e-9;
  WriteTuner tuner;
  machine.run(tuner, 13);
  // These are the operations until the next trial of the other mode.
  EXPECT_EQ(machine.run(tuner, 62), 62);
  EXPECT_EQ(machine.run(tuner, 640), 620);
}

TEST(WriteTuner, FollowsAMachineThatChanges) {
  Machine machine;
  WriteTuner tuner;
  machine.run(tuner, 640);
  machine.cached_s = 8e-9;  // the ranks were moved apart
  machine.run(tuner, 64);   // at most 8 operations until it is seen, or a trial
  EXPECT_GE(machine.run(tuner, 64), 60);
  machine.cached_s = 1e-9;  // and together again
  machine.run(tuner, 512);  // trials see it; what is remembered fades by half with each
  EXPECT_LE(machine.run(tuner, 64), 4);
}

TEST(WriteTuner, KeepsTunersOfMagnitudesAndOperationsApart) {
  WriteTuners tuners;
  WriteTuner& one = tuners.of(OperationKind::all_reduce, 1 << 20);
  EXPECT_EQ(&one, &tuners.of(OperationKind::all_reduce, (1 << 20) + 4));
  EXPECT_NE(&one, &tuners.of(OperationKind::all_reduce, 1 << 24));
  EXPECT_NE(&one, &tuners.of(OperationKind::broadcast, 1 << 20));
  tuners.of(OperationKind::recv, ~std::size_t{0}).begin_operation();
}

}  // namespace
}  // namespace ddpbench::comm
