// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The file of measured choices.
#include "kernels/ops/cuda/library/algorithm_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ddpbench::ops::cuda {
namespace {

const AlgorithmChoices kChoices = {
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

TEST(AlgorithmCacheText, TakesNothingFromADamagedText) {
  const std::string text = to_text(kChoices);
  for (std::size_t i = 0; i + 2 < text.size(); ++i) {  // the last two: brace, line break
    EXPECT_EQ(from_text(text.substr(0, i)), AlgorithmChoices()) << i;
  }
  EXPECT_EQ(from_text(text + "more"), AlgorithmChoices());
  EXPECT_EQ(from_text(R"({"format": 6, "choices": {}})"), AlgorithmChoices());
  EXPECT_EQ(from_text(R"({"format": 7, "choices": {"key": {"algorithm": "1"}}})"),
            AlgorithmChoices());
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

}  // namespace
}  // namespace ddpbench::ops::cuda
