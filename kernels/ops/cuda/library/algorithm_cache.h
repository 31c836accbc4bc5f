// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// AlgorithmCache: which of a library's algorithms was the fastest for a shape, kept in a text file
// so that the next process need not measure again. Knows nothing of CUDA.
//
// The file is a convenience: one that is missing, damaged or cannot be written means measuring
// again, and is no error. Processes that write at the same time leave one of their files whole.
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
  explicit AlgorithmCache(std::string directory);

  std::optional<AlgorithmChoice> find(const std::string& key) const;
  // Remembers the choice and writes the file anew, with what others have put into it meanwhile.
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

// What a measurement says of one algorithm.
struct MeasuredAlgorithm {
  AlgorithmChoice choice;
  bool runs = false;  // the library could run it
  bool repeatable = false;
  double time_s = 0;
};

// The algorithm, and the arithmetic, that come first in a fixed order; others follow by number.
struct FixedOrder {
  int algorithm = 0, math = 0;
};

// What an algorithm must be like.
struct AlgorithmRules {
  std::size_t workspace_limit_bytes = 0;
  // Set: only what repeats its bits, and the order decides instead of time, which falls out one way
  // today and another way tomorrow.
  std::optional<FixedOrder> repeatable;
};

// The fastest that keeps to the rules, or the first in their order; of equal ones the first. Null:
// none does.
const MeasuredAlgorithm* pick_algorithm(std::span<const MeasuredAlgorithm> measured,
                                        const AlgorithmRules& rules);

}  // namespace ddpbench::ops::cuda
