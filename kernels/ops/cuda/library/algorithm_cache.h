// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// AlgorithmCache: the fastest of a library's algorithms for each shape. A file keeps them, so that
// the next process need not measure again. It knows nothing of CUDA.
//
// The file is a convenience. When it is missing, damaged or cannot be written, the process measures
// again; that is no error. When processes write at the same time, one of their files stays, whole.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddpbench::ops::cuda {

struct AlgorithmChoice {
  int algorithm = 0;                // its number
  int math = 0;                     // the library's word for the arithmetic
  std::size_t workspace_bytes = 0;  // as measured
  bool fused = false;               // forward adds the bias and rectifies in the same call
  friend bool operator==(const AlgorithmChoice&, const AlgorithmChoice&) = default;
};
using AlgorithmChoices = std::map<std::string, AlgorithmChoice>;

class AlgorithmCache {
 public:
  // `directory` is made when it is missing; empty: nothing is read or written.
  explicit AlgorithmCache(const std::string& directory);

  std::optional<AlgorithmChoice> find(const std::string& key) const;
  // Remembers the choice and writes the file anew, with what other processes wrote meanwhile.
  void store(const std::string& key, const AlgorithmChoice& choice);

  static constexpr const char* kFileName = "cuda-algorithms.json";

 private:
  std::string path_;
  AlgorithmChoices choices_;
};

// The file's text, and back; nothing where it is damaged or of another format.
std::string to_text(const AlgorithmChoices& choices);
AlgorithmChoices from_text(std::string_view text);

}  // namespace ddpbench::ops::cuda
