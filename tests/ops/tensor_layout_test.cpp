// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// TensorLayout and its translation to and from oneDNN.
#include "kernels/ops/tensor_layout.h"

#include <gtest/gtest.h>

#include "kernels/ops/onednn/api.h"

namespace ddpbench::ops {
namespace {

TEST(TensorLayout, PlainCountsItsBytes) {
  const TensorLayout layout = TensorLayout::plain({2, 3, 5}, DataType::bf16);
  EXPECT_EQ(layout.bytes, 60U);
  EXPECT_TRUE(layout.is_plain());
  EXPECT_EQ(to_string(layout.shape), "[2, 3, 5]");
}

TEST(TensorLayout, DiffersByShapeTypeAndTag) {
  const TensorLayout layout = TensorLayout::plain({2, 32, 3, 3});
  EXPECT_EQ(layout, TensorLayout::plain({2, 32, 3, 3}));
  EXPECT_NE(layout, TensorLayout::plain({2, 32, 9}));
  EXPECT_NE(layout, TensorLayout::plain({2, 32, 3, 3}, DataType::int32));
  EXPECT_NE(layout, image_layout({2, 32, 3, 3}, 16));
}

TEST(OnednnLayout, NamesLayoutsAsOneDnnDoes) {
  EXPECT_EQ(image_layout({2, 32, 3, 3}, 1).tag, "plain");
  EXPECT_EQ(image_layout({2, 32, 3, 3}, 8).tag, "aBcd8b");
  EXPECT_EQ(image_layout({2, 32, 3, 3}, 16).tag, "aBcd16b");
  EXPECT_EQ(image_layout({2, 32, 3, 3}, 32).tag, "acdb");
  using Tag = dnnl::memory::format_tag;
  const dnnl::memory::desc weight({64, 32, 3, 3}, dnnl::memory::data_type::f32, Tag::OIhw16i16o);
  EXPECT_EQ(onednn::to_layout(weight).tag, "ABcd16b16a");
}

TEST(OnednnLayout, CountsPaddingInItsBytes) {
  EXPECT_EQ(image_layout({2, 17, 3, 3}, 16).bytes, 2U * 32 * 9 * 4);
}

TEST(OnednnLayout, CallsEveryRowMajorLayoutPlain) {
  // Channels-last of one channel is row-major.
  EXPECT_TRUE(image_layout({4, 1, 5, 6}, 1).is_plain());
  const dnnl::memory::desc last({4, 1, 5, 6}, dnnl::memory::data_type::f32,
                                dnnl::memory::format_tag::acdb);
  EXPECT_TRUE(onednn::to_layout(last).is_plain());
}

TEST(OnednnLayout, ComesBackAsTheDescriptorItWasMadeFrom) {
  for (const std::int64_t block : {1, 8, 16, 20}) {
    const TensorLayout layout = image_layout({3, 20, 4, 5}, block);
    const TensorLayout back = onednn::to_layout(onednn::to_desc(layout));
    EXPECT_EQ(back, layout);
    EXPECT_EQ(back.bytes, layout.bytes);
    EXPECT_EQ(channel_block(back), block);
  }
}

TEST(OnednnLayout, KnowsNoChannelBlockInOtherLayouts) {
  using Tag = dnnl::memory::format_tag;
  const dnnl::memory::desc batch_inside({32, 16, 3, 3}, dnnl::memory::data_type::f32, Tag::bcda);
  EXPECT_EQ(channel_block(onednn::to_layout(batch_inside)), 0);
}

}  // namespace
}  // namespace ddpbench::ops
