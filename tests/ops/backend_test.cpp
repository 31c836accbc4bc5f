// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the backends report of themselves.
#include <gtest/gtest.h>

#include "kernels/ops/backend.h"
#include "kernels/runtime/cpu_device.h"

namespace ddpbench::ops {
namespace {

TEST(OpBackend, HasAName) {
  const auto device = make_cpu_device({});
  EXPECT_EQ(make_onednn_backend(*device)->name(), "onednn");
  EXPECT_EQ(make_reference_backend()->name(), "reference");
}

TEST(OpBackend, HintsSmallerMicroBatchesForLargerMaps) {
  const auto device = make_cpu_device({});
  const auto backend = make_onednn_backend(*device);
  const std::int64_t small = backend->micro_batch_hint(1 << 12);
  const std::int64_t large = backend->micro_batch_hint(1 << 16);
  if (small == 0) GTEST_SKIP() << "this system does not tell its L2 cache";
  EXPECT_GT(small, large);
  EXPECT_EQ(backend->micro_batch_hint(0), 0);
  EXPECT_EQ(make_reference_backend()->micro_batch_hint(1 << 12), 0);
}

}  // namespace
}  // namespace ddpbench::ops
