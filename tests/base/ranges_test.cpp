// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/ranges.h"

#include <gtest/gtest.h>

#include <memory>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

namespace ddpbench {
namespace {

struct Item {
  std::string name;
  int count = 0;
  int twice() const { return 2 * count; }
};
const std::vector<Item> kItems = {{"b", 1}, {"a", 2}, {"b", 3}};

TEST(RangesTest, MapsByMembersAndFunctions) {
  EXPECT_EQ(mapped(kItems, &Item::count), (std::vector{1, 2, 3}));
  EXPECT_EQ(mapped(kItems, &Item::twice), (std::vector{2, 4, 6}));
  const auto is_b = [](const Item& item) { return item.name == "b"; };
  EXPECT_EQ(mapped(kItems | std::views::filter(is_b), &Item::count), (std::vector{1, 3}));
  EXPECT_TRUE(mapped(std::vector<Item>(), &Item::name).empty());
}

TEST(RangesTest, MapsToWhatCanOnlyMove) {
  const auto made =
      mapped(std::views::iota(0, 2), [](int value) { return std::make_unique<int>(value); });
  EXPECT_EQ(*made.at(1), 1);
}

TEST(RangesTest, JoinsElementsAndWordsOfElements) {
  EXPECT_EQ(joined(std::vector{1, 3, 7}, ", "), "1, 3, 7");
  EXPECT_EQ(joined(kItems, "; ", &Item::name), "b; a; b");
  EXPECT_EQ(joined(std::vector<int>(), ", "), "");
}

TEST(RangesTest, FindsTheLargestValueButNoneBelowTheLeast) {
  EXPECT_EQ(largest(kItems, 0, &Item::count), 3);
  EXPECT_EQ(largest(kItems, 7, &Item::twice), 7);
  EXPECT_EQ(largest(std::vector<Item>(), 1, &Item::count), 1);
}

TEST(RangesTest, GroupsInTheOrderOfTheFirst) {
  const auto groups = grouped(kItems, &Item::name);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].first, "b");
  EXPECT_EQ(mapped(groups[0].second, &Item::count), (std::vector{1, 3}));
  EXPECT_EQ(groups[1].first, "a");
}

}  // namespace
}  // namespace ddpbench
