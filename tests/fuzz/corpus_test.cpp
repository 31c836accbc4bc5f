// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Passes every file of the corpora to the entry that the fuzzers call. Files named "accepted..."
// must be accepted, files named "refused..." refused. For other files, which a fuzzer found, it is
// enough that the entry returns.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/entries.h"

namespace ddpbench::fuzz {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void run_corpus(const char* folder, bool (*entry)(const std::string&)) {
  int accepted = 0, refused = 0;
  for (const auto& file : fs::directory_iterator(fs::path(DDPBENCH_FUZZ_CORPUS) / folder)) {
    const std::string name = file.path().filename();
    SCOPED_TRACE(name);
    const bool taken = entry(content_of(file.path()));
    if (name.starts_with("accepted")) {
      EXPECT_TRUE(taken);
    } else if (name.starts_with("refused")) {
      EXPECT_FALSE(taken);
    }
    ++(taken ? accepted : refused);
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
}

TEST(FuzzCorpus, OfReportsIsReadOrRefused) { run_corpus("report", report_entry); }
TEST(FuzzCorpus, OfConfigurationsIsReadOrRefused) { run_corpus("config", config_entry); }
TEST(FuzzCorpus, OfNetworksIsReadOrRefused) { run_corpus("network", network_entry); }
TEST(FuzzCorpus, OfTheStoreIsAnsweredOrRefused) { run_corpus("store", store_entry); }
TEST(FuzzCorpus, OfImagesIsDecodedOrRefused) { run_corpus("image", image_entry); }

}  // namespace
}  // namespace ddpbench::fuzz
