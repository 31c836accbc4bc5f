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

// The reference gains nothing from fusing: it runs each operation alone.
TEST(OpBackend, FusesOnlyWhereItSaysSo) {
  const TensorLayout maps = TensorLayout::plain({2, 3, 4, 4});
  const TensorLayout plain = TensorLayout::plain({2, 3, 2, 2});
  const MaxPool2dDesc pool{.input = maps, .window = square_window(2, 2)};
  const OpDesc to_plain[] = {pool, ReorderDesc{.from = plain, .to = plain}};
  const OpDesc to_relu[] = {pool, ActivationDesc{plain}};
  const auto device = make_cpu_device({});
  const auto onednn = make_onednn_backend(*device);
  EXPECT_EQ(onednn->fuse(to_plain).count, 2U);
  EXPECT_FALSE(onednn->fuse(to_relu).op);
  EXPECT_FALSE(make_reference_backend()->fuse(to_plain).op);
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
