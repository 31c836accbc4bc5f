// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Conditions of planning on the stand-in: an empty cache, a lack of memory.
#pragma once

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "kernels/ops/cuda/library/algorithm_cache.h"
#include "tests/cuda/host/host_stream.h"

namespace ddpbench::ops::testing {

// A folder for the algorithm cache of one test.
class CacheDirectory {
 public:
  explicit CacheDirectory(const char* name = "search")
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("ddpbench-{}-{}", name, ::getpid())) {
    std::filesystem::remove_all(path_);
  }
  ~CacheDirectory() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }
  // The content of the cache.
  std::map<std::string, cuda::AlgorithmChoice> choices() const {
    std::ifstream in(file());
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    return cuda::from_text(text);
  }

 private:
  std::filesystem::path file() const { return path_ / cuda::AlgorithmCache::kFileName; }

  std::filesystem::path path_;
};

// So little memory that no operand of a convolution fits.
class LittleMemory {
 public:
  LittleMemory() { ::setenv(kVariable, "16", 1); }
  ~LittleMemory() { ::unsetenv(kVariable); }

 private:
  static constexpr const char* kVariable = "STAND_IN_MEMORY_BYTES";
};

}  // namespace ddpbench::ops::testing
