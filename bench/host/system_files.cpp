// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/system_files.h"

#include <fstream>
#include <sstream>
#include <string>

namespace ddpbench::bench {

std::optional<std::uint64_t> first_number(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> number_after(std::string_view word,
                                          const std::filesystem::path& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    std::uint64_t value = 0;
    if (words >> first >> value && first == word) return value;
  }
  return std::nullopt;
}

}  // namespace ddpbench::bench
