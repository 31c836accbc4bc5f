// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The words of the runtime's enumerations are distinct, and are the keys of reports.
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/data_type.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/phase.h"

namespace ddpbench {
namespace {

template <typename Enum>
std::set<std::string_view> words_of_first(std::size_t count) {
  std::set<std::string_view> words;
  for (std::size_t i = 0; i < count; ++i) words.insert(to_string(static_cast<Enum>(i)));
  return words;
}

TEST(Names, GiveEveryMemoryCategoryAWordOfItsOwn) {
  const auto words = words_of_first<MemoryCategory>(kMemoryCategoryCount);
  EXPECT_EQ(words.size(), kMemoryCategoryCount);
  EXPECT_FALSE(words.contains("unknown"));
  EXPECT_EQ(to_string(MemoryCategory::optimizer), "optimizer");
}

TEST(Names, GiveEveryPhaseAWordOfItsOwn) {
  const auto words = words_of_first<Phase>(kPhaseCount);
  EXPECT_EQ(words.size(), kPhaseCount);
  EXPECT_FALSE(words.contains("none"));
  EXPECT_EQ(to_string(Phase::comm_wait), "comm_wait");
}

TEST(Names, GiveNoPhaseAWordToo) { EXPECT_EQ(to_string(static_cast<Phase>(kPhaseCount)), "none"); }

TEST(Names, SpellDataTypesAndDevicesAsTheCommandLineDoes) {
  EXPECT_EQ(to_string(DataType::fp32), "fp32");
  EXPECT_EQ(to_string(DataType::uint8), "uint8");
  EXPECT_EQ(to_string(DeviceKind::cpu), "cpu");
  EXPECT_EQ(to_string(DeviceKind::cuda), "cuda");
}

}  // namespace
}  // namespace ddpbench
