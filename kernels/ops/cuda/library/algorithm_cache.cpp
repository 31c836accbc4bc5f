// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The file has a first line that names the format, a line for each entry (key, tab, four numbers),
// and a last line with a hash of all lines before it.
#include "kernels/ops/cuda/library/algorithm_cache.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "base/math.h"
#include "base/random.h"

namespace ddpbench::ops::cuda {
namespace {

constexpr std::string_view kFormat = "ddpbench algorithms 6\n";
constexpr std::string_view kHash = "hash ";

std::string hash_line(std::string_view text) {
  return fmt::format("{}{:016x}\n", kHash, hash_bytes(text.data(), text.size()));
}

// Takes a number and the character after it from the front of `text`.
template <typename Number>
bool take(std::string_view& text, Number& number, char end) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest == text.data() + text.size() || *rest != end) return false;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()) + 1);
  return true;
}

// Returns an empty text when the file cannot be read.
std::string read_cache(const std::string& path) {
  try {
    return read_file(path, {.most_bytes = 16 * kMiB});
  } catch (const ConfigError&) {
    return "";
  }
}

// A cache that cannot be written, or that a power cut destroys, costs only time. So the write does
// not wait for the disk.
void write_cache(const std::string& path, const std::string& text) {
  try {
    write_file(path, text, {.force = true, .durable = false});
  } catch (const ConfigError&) {
    return;
  }
}

}  // namespace

std::string to_text(const std::map<std::string, AlgorithmChoice>& choices) {
  std::string text(kFormat);
  for (const auto& [key, choice] : choices) {
    text += fmt::format("{}\t{} {} {} {}\n", key, choice.algorithm, choice.math,
                        choice.workspace_bytes, choice.fused ? 1 : 0);
  }
  return text + hash_line(text);
}

std::optional<std::map<std::string, AlgorithmChoice>> from_text(std::string_view text) {
  if (!text.starts_with(kFormat)) return std::nullopt;
  const std::size_t hash = text.rfind(kHash);
  if (hash == std::string_view::npos || text.substr(hash) != hash_line(text.substr(0, hash))) {
    return std::nullopt;
  }
  text = text.substr(kFormat.size(), hash - kFormat.size());
  std::map<std::string, AlgorithmChoice> choices;
  while (!text.empty()) {
    const std::size_t tab = text.find('\t');
    if (tab == std::string_view::npos) return std::nullopt;
    const std::string key(text.substr(0, tab));
    text.remove_prefix(tab + 1);
    AlgorithmChoice choice;
    int fused = 0;
    if (!take(text, choice.algorithm, ' ') || !take(text, choice.math, ' ') ||
        !take(text, choice.workspace_bytes, ' ') || !take(text, fused, '\n')) {
      return std::nullopt;
    }
    choice.fused = fused != 0;
    choices[key] = choice;
  }
  return choices;
}

AlgorithmCache::AlgorithmCache(const std::string& directory) {
  if (directory.empty()) return;
  path_ = (std::filesystem::path(directory) / kFileName).string();
  choices_ = from_text(read_cache(path_)).value_or(std::map<std::string, AlgorithmChoice>());
}

std::optional<AlgorithmChoice> AlgorithmCache::find(const std::string& key) const {
  const auto found = choices_.find(key);
  if (found == choices_.end()) return std::nullopt;
  return found->second;
}

void AlgorithmCache::store(const std::string& key, const AlgorithmChoice& choice) {
  ensure(key.find_first_of("\t\n") == std::string::npos, "'{}' cannot be a key", key);
  choices_[key] = choice;
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  // This process's own measurements win over those of other processes.
  if (auto others = from_text(read_cache(path_))) choices_.merge(*others);
  write_cache(path_, to_text(choices_));
}

namespace {

bool comes_before(const MeasuredAlgorithm& a, const MeasuredAlgorithm& b,
                  const AlgorithmRules& rules) {
  if (!rules.repeatable) return a.time_s < b.time_s;
  const auto place = [&first = *rules.repeatable](const AlgorithmChoice& c) {
    return std::tuple(c.algorithm != first.algorithm, c.algorithm, c.math != first.math, c.math);
  };
  return place(a.choice) < place(b.choice);
}

}  // namespace

const MeasuredAlgorithm* pick_algorithm(std::span<const MeasuredAlgorithm> measured,
                                        const AlgorithmRules& rules) {
  const MeasuredAlgorithm* best = nullptr;
  for (const MeasuredAlgorithm& candidate : measured) {
    if (!candidate.runs || candidate.choice.workspace_bytes > rules.workspace_limit_bytes) continue;
    if (rules.repeatable && !candidate.repeatable) continue;
    if (best == nullptr || comes_before(candidate, *best, rules)) best = &candidate;
  }
  return best;
}

}  // namespace ddpbench::ops::cuda
