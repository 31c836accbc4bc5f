// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// AlgorithmCache: the fastest of a library's algorithms for each shape. A text file keeps them, so
// that the next process need not measure again. It knows nothing of CUDA.
//
// The file is a convenience. When it is missing, damaged or cannot be written, the process measures
// again; that is no error. When processes write at the same time, one of their files stays, whole.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddpbench::ops::cuda {

struct AlgorithmChoice {
  int algorithm = 0;                // its number, or a hash of how the library describes it
  int math = 0;                     // the library's word for the arithmetic
  std::size_t workspace_bytes = 0;  // as measured
  bool fused = false;               // forward adds the bias and rectifies in the same call
  friend bool operator==(const AlgorithmChoice&, const AlgorithmChoice&) = default;
};

class AlgorithmCache {
 public:
  // `directory` is made when it is missing; empty: nothing is read or written.
  explicit AlgorithmCache(const std::string& directory);

  std::optional<AlgorithmChoice> find(const std::string& key) const;
  // Remembers the choice and writes the file anew, with what other processes wrote meanwhile.
  // REQUIRES: the key has no tab and no line break.
  void store(const std::string& key, const AlgorithmChoice& choice);

  static constexpr const char* kFileName = "cuda-algorithms.txt";

 private:
  std::string path_;
  std::map<std::string, AlgorithmChoice> choices_;
};

// The file's text, and back; nullopt when it is damaged: another format, cut off, or changed.
std::string to_text(const std::map<std::string, AlgorithmChoice>& choices);
std::optional<std::map<std::string, AlgorithmChoice>> from_text(std::string_view text);

// The result of measuring one algorithm.
struct MeasuredAlgorithm {
  AlgorithmChoice choice;
  bool runs = false;  // the library could run it
  bool repeatable = false;
  double time_s = 0;
};

// The algorithm and the arithmetic that come first in a fixed order. Others follow by number.
struct FixedOrder {
  int algorithm = 0, math = 0;
};

// The rules that a choice must keep.
struct AlgorithmRules {
  std::size_t workspace_limit_bytes = 0;
  // Set: only algorithms that repeat their bits count, and this order decides. Time does not, since
  // it differs from day to day.
  std::optional<FixedOrder> repeatable;
};

// The fastest algorithm that keeps the rules, or the first in their order; of equal ones the first.
// Null: none does.
const MeasuredAlgorithm* pick_algorithm(std::span<const MeasuredAlgorithm> measured,
                                        const AlgorithmRules& rules);

}  // namespace ddpbench::ops::cuda
