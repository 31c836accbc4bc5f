// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/file.h"
#include "base/random.h"
#include "bench/host/build_info.h"
#include "bench/options/option_source.h"
#include "bench/options/option_table.h"
#include "bench/plan/data_places.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {
namespace {

// Options that say where files lie and how the command behaves.
constexpr std::array<std::string_view, 12> kHandling = {
    "config", "json",       "resume",  "force",     "quiet",      "data-dir",
    "trace",  "save-model", "timeout", "interface", "checkpoint", "resume-training"};

// Members of a job that are a rank's own, or that come from the options or the host.
constexpr std::array kOwnMembers = {"options",    "cores",        "gpus",      "oversubscribed",
                                    "dataset_fd", "reference_fd", "model_path"};

std::string hash_of_file(const std::string& path) {
  if (path.empty()) return "none";
  const std::string text = read_file(path, {.most_bytes = std::size_t{1} << 40});
  return fmt::format("a file with hash {:016x}", hash_bytes(text.data(), text.size()));
}

std::uint64_t hash_text(const std::string& text, std::uint64_t seed) {
  return hash_bytes(text.data(), text.size(), seed);
}

// "--lr is 0.1 on rank 2 but 0.01 on rank 0"
std::string difference(const std::string& name, int rank, const std::string& value, int other,
                       const std::string& other_value) {
  return fmt::format("{} is {} on rank {} but {} on rank {}", name, value, rank, other_value,
                     other);
}

}  // namespace

PlanValues option_values(const Options& options, const launch::RankEnvironment& environment) {
  PlanValues values{{"WORLD_SIZE", std::to_string(environment.world_size)},
                    {"the program", version_text()},
                    {"the command", "training"}};
  const nlohmann::ordered_json all = to_json(options);
  for (const OptionDefinition& definition : option_table()) {
    if (std::ranges::find(kHandling, definition.name) != kHandling.end()) continue;
    if (std::holds_alternative<NoMember>(definition.member)) continue;
    const nlohmann::ordered_json::json_pointer key(definition.canonical_key());
    values.push_back({definition.is_flag() ? definition.flag() : definition.name,
                      all.contains(key) ? all.at(key).dump() : "not set"});
  }
  values.push_back({"--trace", options.trace_path.empty() ? "not set" : "set"});
  values.push_back({"--checkpoint", options.checkpoint.empty() ? "not set" : "set"});
  values.push_back({"the model " + options.model, hash_of_file(find_model(options.model))});
  values.push_back({"the weights of --load-model", hash_of_file(options.load_model)});
  values.push_back({"the file of --resume-training", hash_of_file(options.resume_training)});
  return values;
}

PlanValues job_values(const TrainingJob& job, const launch::ChannelLayout& layout) {
  nlohmann::json all = to_json(job);
  for (const char* const member : kOwnMembers) all.erase(member);
  all["dataset"].erase("directory");
  all["device"] = job.options.device;
  all["server_device"] = job.options.server_device;
  all["precision"] = job.options.precision;
  all["bytes_of_records"] = launch::RankChannels::bytes_per_rank(layout);
  // In front of its members, none of which says it in words.
  PlanValues values{
      {"the data set",
       fmt::format("{} {}", job.dataset.name,
                   job.dataset.source == "files" ? "from files" : "drawn (no files)")}};
  for (PlanValue& value : flat_values(all)) values.push_back(std::move(value));
  return values;
}

PlanValues flat_values(const nlohmann::json& json) {
  PlanValues values;
  const nlohmann::json flat = json.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    values.push_back({pointer.substr(1), value.dump()});
  }
  return values;
}

nlohmann::json plan_json(const PlanValues& values) {
  std::uint64_t hash = 0;
  nlohmann::json pairs = nlohmann::json::array();
  for (const auto& [name, value] : values) {
    hash = hash_text(value, hash_text(name, hash));
    pairs.push_back({name, value});
  }
  return {{"hash", hash}, {"values", std::move(pairs)}};
}

std::string disagreement(int rank, const nlohmann::json& values, int other,
                         const nlohmann::json& other_values) {
  if (values.at("hash") == other_values.at("hash")) return "";
  const nlohmann::json &own = values.at("values"), &theirs = other_values.at("values");
  const std::size_t count = std::min(own.size(), theirs.size());
  for (std::size_t i = 0; i < count; ++i) {
    const nlohmann::json &mine = own.at(i), &other_one = theirs.at(i);
    if (mine == other_one) continue;
    if (mine.at(0) == other_one.at(0)) {
      return difference(mine.at(0), rank, mine.at(1), other, other_one.at(1));
    }
    return difference(fmt::format("value {} of the plan", i), rank, mine.at(0), other,
                      other_one.at(0));
  }
  return difference("the number of values in the plan", rank, std::to_string(own.size()), other,
                    std::to_string(theirs.size()));
}

}  // namespace ddpbench::bench
