// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda/library/algorithm_cache.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/math.h"

namespace ddpbench::ops::cuda {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AlgorithmChoice, algorithm, math, workspace_bytes, fused)

namespace {

// Raised with every change of what a key or a choice means.
constexpr int kFormat = 7;

AlgorithmChoices read_cache(const std::string& path) {
  try {
    return from_text(read_file(path, {.most_bytes = 16 * kMiB}));
  } catch (const ConfigError&) {
    return {};
  }
}

}  // namespace

std::string to_text(const AlgorithmChoices& choices) {
  return nlohmann::json{{"format", kFormat}, {"choices", choices}}.dump(1) + "\n";
}

AlgorithmChoices from_text(std::string_view text) {
  try {
    const auto document = nlohmann::json::parse(text);
    if (document.at("format") == kFormat) return document.at("choices").get<AlgorithmChoices>();
  } catch (const nlohmann::json::exception&) {  // damaged
  }
  return {};
}

AlgorithmCache::AlgorithmCache(const std::string& directory) {
  if (directory.empty()) return;
  path_ = (std::filesystem::path(directory) / kFileName).string();
  choices_ = read_cache(path_);
}

std::optional<AlgorithmChoice> AlgorithmCache::find(const std::string& key) const {
  const auto found = choices_.find(key);
  if (found == choices_.end()) return std::nullopt;
  return found->second;
}

void AlgorithmCache::store(const std::string& key, const AlgorithmChoice& choice) {
  choices_[key] = choice;
  if (path_.empty()) return;
  choices_.merge(read_cache(path_));  // this process's own measurements win
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  try {
    // A power cut that destroys the file costs only time. So the write does not wait for the disk.
    write_file(path_, to_text(choices_), {.force = true, .durable = false});
  } catch (const ConfigError&) {  // the cache saves time alone
  }
}

}  // namespace ddpbench::ops::cuda
