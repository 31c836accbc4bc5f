// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The changes between layouts of the CUDA backend.
#include "kernels/ops/cuda/library/layout.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpbench::ops::cuda {
namespace {

const Shape kShape = {2, 3, 4, 5};

void expect_change(const TensorLayout& from, const TensorLayout& to, const LayoutChange& want) {
  const LayoutChange got = layout_change(from, to);
  EXPECT_EQ(got.batch, want.batch);
  EXPECT_EQ(got.rows, want.rows);
  EXPECT_EQ(got.columns, want.columns);
}

TEST(CudaLayout, TransposesChannelsAndPixels) {
  const TensorLayout plain = TensorLayout::plain(kShape);
  expect_change(plain, nhwc_layout(kShape, DataType::bf16), {2, 3, 20});
  expect_change(nhwc_layout(kShape, DataType::bf16), plain, {2, 20, 3});
  expect_change(TensorLayout::plain({2, 60}), ohwi_layout(kShape), {2, 3, 20});
}

TEST(CudaLayout, ChangesOnlyTheTypeBetweenEqualOrders) {
  expect_change(nhwc_layout(kShape, DataType::fp32), nhwc_layout(kShape, DataType::bf16),
                {1, 1, 120});
  expect_change(TensorLayout::plain(kShape), TensorLayout::plain({120}, DataType::bf16),
                {1, 1, 120});
}

TEST(CudaLayout, RefusesOtherElementCountsShapesTypesAndTags) {
  const TensorLayout plain = TensorLayout::plain(kShape);
  EXPECT_THROW(layout_change(plain, TensorLayout::plain({119})), ConfigError);
  EXPECT_THROW(
      layout_change(nhwc_layout(kShape, DataType::fp32), nhwc_layout({2, 4, 3, 5}, DataType::fp32)),
      ConfigError);
  EXPECT_THROW(layout_change(plain, TensorLayout::plain(kShape, DataType::int32)), ConfigError);
  TensorLayout blocked = plain;
  blocked.tag = "aBcd16b";
  EXPECT_THROW(layout_change(plain, blocked), ConfigError);
}

TEST(CudaLayout, TakesTensorsOfOneChannelOrOnePixelAsTheyCome) {
  for (const Shape& shape : {Shape{2, 1, 4, 5}, Shape{2, 7, 1, 1}}) {
    const TensorLayout plain = TensorLayout::plain(shape);
    EXPECT_EQ(same_memory_or(plain, nhwc_layout(shape, DataType::fp32)), plain);
    EXPECT_EQ(same_memory_or(plain, nhwc_layout(shape, DataType::bf16)).tag, "nhwc");
  }
  EXPECT_EQ(same_memory_or(TensorLayout::plain(kShape), nhwc_layout(kShape, DataType::fp32)).tag,
            "nhwc");
}

}  // namespace
}  // namespace ddpbench::ops::cuda
