// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The file of measured choices, and the choice itself.
#include "kernels/ops/cuda/library/algorithm_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "base/error.h"

namespace ddpbench::ops::cuda {
namespace {

const std::map<std::string, AlgorithmChoice> kChoices = {
    {"NVIDIA H200|cudnn 91900|tf32|x [8, 1, 28, 28]|forward", {1, 0, 4096, true}},
    {"another", {0, 3, 0, false}}};

class AlgorithmCacheFile : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::temp_directory_path() / ("ddpbench-cache-" + std::to_string(::getpid()));
    std::filesystem::remove_all(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string directory() const { return directory_.string(); }
  std::filesystem::path file() const { return directory_ / AlgorithmCache::kFileName; }

  std::filesystem::path directory_;
};

TEST(AlgorithmCacheText, ReadsWhatItWrote) { EXPECT_EQ(from_text(to_text(kChoices)), kChoices); }

TEST(AlgorithmCacheText, RefusesEveryTruncationAndEveryChangedByte) {
  const std::string text = to_text(kChoices);
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_EQ(from_text(text.substr(0, i)), std::nullopt) << i;
    std::string changed = text;
    changed[i] ^= 1;
    EXPECT_EQ(from_text(changed), std::nullopt) << i;
  }
  EXPECT_EQ(from_text(text + "more"), std::nullopt);
}

TEST_F(AlgorithmCacheFile, OutlivesTheProcess) {
  AlgorithmCache(directory()).store("key", {1, 2, 3, true});
  const AlgorithmCache again(directory());
  EXPECT_EQ(again.find("key"), (AlgorithmChoice{1, 2, 3, true}));
  EXPECT_EQ(again.find("other"), std::nullopt);
}

TEST_F(AlgorithmCacheFile, KeepsWhatAnotherProcessWroteMeanwhile) {
  AlgorithmCache one(directory()), other(directory());
  one.store("a", {1, 0, 0, false});
  other.store("b", {2, 0, 0, false});
  const AlgorithmCache both(directory());
  EXPECT_EQ(both.find("a"), (AlgorithmChoice{1, 0, 0, false}));
  EXPECT_EQ(both.find("b"), (AlgorithmChoice{2, 0, 0, false}));
}

TEST_F(AlgorithmCacheFile, StartsAnewWhenTheFileIsDamaged) {
  std::filesystem::create_directories(directory_);
  std::ofstream(file()) << "ddpbench algorithms 1\nkey\t1 2 3 1\nhash 0123456789abcdef\n";
  AlgorithmCache cache(directory());
  EXPECT_EQ(cache.find("key"), std::nullopt);
  cache.store("key", {4, 0, 0, false});
  EXPECT_EQ(AlgorithmCache(directory()).find("key"), (AlgorithmChoice{4, 0, 0, false}));
}

TEST_F(AlgorithmCacheFile, RemembersWithoutAFileWhenItCannotWriteOne) {
  std::ofstream(directory_) << "a file where the directory should be";
  AlgorithmCache cache(directory());
  cache.store("key", {1, 0, 0, false});
  EXPECT_EQ(cache.find("key"), (AlgorithmChoice{1, 0, 0, false}));
  AlgorithmCache nowhere("");
  nowhere.store("key", {1, 0, 0, false});
  EXPECT_EQ(nowhere.find("key"), (AlgorithmChoice{1, 0, 0, false}));
}

TEST_F(AlgorithmCacheFile, RefusesAKeyThatWouldBreakTheFile) {
  AlgorithmCache cache(directory());
  EXPECT_THROW(cache.store("a\tb", {}), InternalError);
}

MeasuredAlgorithm algorithm(int number, double time_s, std::size_t bytes, bool repeatable) {
  return {{number, 0, bytes, false}, true, repeatable, time_s};
}

TEST(PickAlgorithm, TakesTheFastestThatKeepsToTheRules) {
  std::vector<MeasuredAlgorithm> measured = {algorithm(0, 1, 10, false), algorithm(1, 2, 10, true),
                                             algorithm(2, 0.5, 1000, true),
                                             algorithm(3, 2, 10, true)};
  EXPECT_EQ(pick_algorithm(measured, {100, {}})->choice.algorithm, 0);
  EXPECT_EQ(pick_algorithm(measured, {1000, {}})->choice.algorithm, 2);
  EXPECT_EQ(pick_algorithm(measured, {5, {}}), nullptr);
  for (MeasuredAlgorithm& m : measured) m.runs = false;
  EXPECT_EQ(pick_algorithm(measured, {1000, {}}), nullptr);
}

TEST(PickAlgorithm, TakesTheFirstInOrderOfThoseThatRepeatWhateverTheirTime) {
  std::vector<MeasuredAlgorithm> measured = {algorithm(0, 1, 10, false), algorithm(5, 2, 10, true),
                                             algorithm(3, 3, 10, true),
                                             algorithm(4, 9, 1000, true)};
  const auto first = [&](std::size_t limit, const FixedOrder& order) {
    const MeasuredAlgorithm* const picked = pick_algorithm(measured, {limit, order});
    return picked->choice.algorithm * 10 + picked->choice.math;
  };
  EXPECT_EQ(first(100, {0, 0}), 30);
  EXPECT_EQ(first(100, {4, 0}), 30);
  EXPECT_EQ(first(100, {5, 0}), 50);
  EXPECT_EQ(first(1000, {4, 0}), 40);
  // The same algorithm in another, faster arithmetic.
  measured.push_back(algorithm(3, 0.5, 10, true));
  measured.back().choice.math = 2;
  EXPECT_EQ(first(100, {0, 0}), 30);
  EXPECT_EQ(first(100, {0, 1}), 30);
  EXPECT_EQ(first(100, {0, 2}), 32);
}

}  // namespace
}  // namespace ddpbench::ops::cuda
