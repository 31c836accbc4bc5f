// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/data/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/text.h"

namespace ddpbench::report {
namespace {

constexpr unsigned kEqualUse = kCellUse | kPairUse;  // equal in a cell and in a pair

std::string text_of(const std::string& value) { return value; }
std::string text_of(std::integral auto value) { return value == 0 ? "" : std::to_string(value); }

template <auto kMember>
std::string value_of(const Run& run) {
  return text_of(run.*kMember);
}

// `value`, or nothing for a run that did not end well: it does not know how much it would do.
std::string of_whole_run(const Run& run, std::string value) {
  return is_complete(run) ? std::move(value) : "";
}

// What is not recorded is as it was before there was a choice.
Settings optimizer_values(const Run& run) {
  Settings values(run.optimizer_choices.begin(), run.optimizer_choices.end());
  for (const auto& [name, value] : run.optimizer) values[name] = fmt::format("{}", value);
  if (run.optimizer_name == "sgd") values.emplace("nesterov", "off");
  values.emplace("lr_schedule", "constant");
  values.emplace("lr_warmup_steps", "0");
  return values;
}

// Programs that do not record it do not augment.
std::string augment_value(const Run& run) { return run.augment == true ? "true" : "false"; }

std::string augment_words(const Run& run) { return run.augment == true ? "augmented" : ""; }

// Programs that do not record it train all epochs.
std::string until_accuracy_value(const Run& run) {
  return run.until_accuracy ? fmt::format("{:g}", run.until_accuracy->target) : "off";
}

// How long a run trains that ends with its accuracy, or with a loss that is not finite, is no
// setting but a result.
std::string of_fixed_length(const Run& run, std::string value) {
  const bool ends_by_itself = run.until_accuracy || run.diverged_step.value;
  return ends_by_itself ? "" : of_whole_run(run, std::move(value));
}

std::string dataset_words(const Run& run) {
  if (!run.dataset_name.empty() && run.dataset_name == run.dataset_source)
    return run.dataset_name + " data";
  return with_note(run.dataset_name, run.dataset_source);
}

std::string model_words(const Run& run) {
  constexpr std::size_t kShown = 8;
  return run.model_hash.empty() ? "" : "network " + run.model_hash.substr(0, kShown);
}

std::string samples_words(std::int64_t samples, const char* noun) {
  return samples > 0 ? counted(samples, noun) : "";
}

std::string train_samples_words(const Run& run) {
  return samples_words(run.train_samples, "training sample");
}

std::string test_samples_words(const Run& run) {
  return samples_words(run.test_samples, "test sample");
}

std::string device_words(const Run& run) { return with_note(run.device, run.device_model); }

std::string threads_words(const Run& run) {
  return counted(run.threads_per_device, "thread") + " a device";
}

std::string scaling_words(const Run& run) {
  return run.scaling_mode.empty() ? "" : run.scaling_mode + " scaling";
}

std::string batch_words(const Run& run) {
  // Imports need not tell it.
  if (run.per_device_batch_size == 0 && run.global_batch_size == 0) return "";
  std::string text = run.scaling_mode == "strong"
                         ? fmt::format("global batch {}", run.global_batch_size)
                         : fmt::format("batch {} a device", run.per_device_batch_size);
  if (run.accumulation_steps != 1) {
    text += fmt::format(" in {} accumulation steps", run.accumulation_steps);
  }
  return text;
}

std::string servers_words(const Run& run) {
  return run.servers > 0 ? counted(run.servers, "server") : "";
}

// A run on one device has no backend. That alone makes no difference between runs.
std::string backend_words(const Run& run) { return run.backend == "none" ? "" : run.backend; }

// What a run spent beside its work (--loader-cost, --emulate-gil) is with the strategy's options,
// in microseconds. It makes other work of a run, so it has rows of its own.
constexpr std::string_view kLoaderCost = "loader_cost_us", kEmulatedGil = "emulated_gil_us";

Settings other_strategy_options(const Run& run) {
  Settings values = run.strategy_options;
  for (const std::string_view key : {kLoaderCost, kEmulatedGil}) values.erase(std::string(key));
  return values;
}

// Programs that do not record it spend nothing.
template <const std::string_view& kKey>
std::string cost_value(const Run& run) {
  const auto found = run.strategy_options.find(std::string(kKey));
  return found == run.strategy_options.end() ? "0" : found->second;
}

std::string loader_cost_words(const Run& run) {
  const std::string cost = cost_value<kLoaderCost>(run);
  return cost == "0" ? "" : value_words(kLoaderCost, cost);
}

std::string emulated_gil_words(const Run& run) {
  const std::string cost = cost_value<kEmulatedGil>(run);
  return cost == "0" ? "" : value_words(kEmulatedGil, cost);
}

std::string injected_words(const Run& run) {
  return run.injected.empty() ? "not injected" : "injected " + run.injected;
}

constexpr auto kTable = std::to_array<Setting>({
    {.key = "strategy", .uses = kCellUse | kPairKeyUse, .value = value_of<&Run::strategy>},
    {.key = "world_size", .uses = kCellUse | kPairKeyUse, .value = value_of<&Run::world_size>},
    {.key = "servers",
     .uses = kCellUse | kPairKeyUse | kStrategyNameUse,
     .value = value_of<&Run::servers>,
     .words = servers_words},
    {.key = "backend",
     .uses = kCellUse | kPairKeyUse | kStrategyNameUse,
     .value = value_of<&Run::backend>,
     .words = backend_words},
    // No kPairUse: the gate prefers runs with the same faults but takes others (gate_pairing.h).
    {.key = "injected",
     .uses = kCellUse | kStrategyNameUse,
     .value = value_of<&Run::injected>,
     .words = injected_words},
    {.key = "strategy_options",
     .uses = kEqualUse | kStrategyNameUse,
     .values = other_strategy_options},
    {.key = "model",
     .uses = kEqualUse | kWorkUse | kNameUse | kTableTitleUse | kChartTitleUse | kRankUse,
     .value = value_of<&Run::model>,
     .words = value_of<&Run::model>},
    // The same name may stand for different networks.
    {.key = "model_hash",
     .uses = kEqualUse | kWorkUse | kNameUse | kRankUse,
     .value = value_of<&Run::model_hash>,
     .words = model_words},
    {.key = "parameters", .uses = kPairUse, .value = value_of<&Run::parameters>},
    {.key = "dataset/name",
     .uses = kEqualUse | kWorkUse | kNameUse | kTableTitleUse | kChartTitleUse | kRankUse,
     .value = value_of<&Run::dataset_name>,
     .words = dataset_words},
    {.key = "dataset/source",
     .uses = kEqualUse | kRankUse,
     .value = value_of<&Run::dataset_source>},
    {.key = "dataset/augment",
     .uses = kEqualUse | kWorkUse | kNameUse | kTableTitleUse | kChartTitleUse | kRankUse,
     .value = augment_value,
     .words = augment_words,
     .without = "not augmented"},
    // The same name and source may stand for a part of the data.
    {.key = "dataset/train_samples",
     .uses = kPairUse | kNameUse | kRankUse,
     .value = value_of<&Run::train_samples>,
     .words = train_samples_words},
    {.key = "dataset/test_samples",
     .uses = kPairUse | kNameUse | kRankUse,
     .value = value_of<&Run::test_samples>,
     .words = test_samples_words},
    {.key = "device",
     .uses = kEqualUse | kWorkUse | kNameUse | kTableTitleUse | kChartSubtitleUse | kRankUse,
     .value = value_of<&Run::device>,
     .words = device_words},
    // No kCellUse: a run that failed early does not know it. repetition_groups() compares it.
    {.key = "device_model",
     .uses = kPairUse | kWorkUse | kRankUse,
     .value = value_of<&Run::device_model>},
    {.key = "threads_per_device",
     .uses = kEqualUse | kWorkUse | kNameUse | kTableTitleUse | kChartSubtitleUse | kRankUse,
     .value = value_of<&Run::threads_per_device>,
     .words = threads_words},
    {.key = "precision",
     .uses = kEqualUse | kWorkUse | kNameUse | kTableTitleUse | kChartSubtitleUse | kRankUse,
     .value = value_of<&Run::precision>,
     .words = value_of<&Run::precision>},
    {.key = "strategy_options/loader_cost_us",
     .uses = kEqualUse | kWorkUse | kNameUse | kTableTitleUse | kChartTitleUse | kRankUse,
     .value = cost_value<kLoaderCost>,
     .words = loader_cost_words,
     .without = "no loader cost"},
    {.key = "strategy_options/emulated_gil_us",
     .uses = kEqualUse | kWorkUse | kNameUse | kTableTitleUse | kChartTitleUse | kRankUse,
     .value = cost_value<kEmulatedGil>,
     .words = emulated_gil_words,
     .without = "no emulated GIL"},
    {.key = "scaling_mode",
     .uses = kEqualUse | kNameUse | kTableTitleUse | kChartTitleUse,
     .value = value_of<&Run::scaling_mode>,
     .words = scaling_words},
    {.key = "per_device_batch_size",
     .uses = kEqualUse | kWeakWorkUse | kNameUse | kChartTitleUse,
     .value = value_of<&Run::per_device_batch_size>,
     .words = batch_words},
    {.key = "global_batch_size",
     .uses = kEqualUse | kStrongWorkUse | kRankUse,
     .value = value_of<&Run::global_batch_size>},
    {.key = "accumulation_steps",
     .uses = kEqualUse | kWeakWorkUse | kRankUse,
     .value = value_of<&Run::accumulation_steps>},
    {.key = "optimizer/name",
     .uses = kEqualUse | kNameUse,
     .value = value_of<&Run::optimizer_name>,
     .words = value_of<&Run::optimizer_name>},
    {.key = "optimizer", .uses = kEqualUse | kNameUse, .values = optimizer_values},
    {.key = "epochs",
     .uses = kPairUse,
     .value = [](const Run& run) { return of_fixed_length(run, text_of(run.epochs.size())); }},
    {.key = "steps",
     .uses = kPairUse,
     .value = [](const Run& run) { return of_fixed_length(run, text_of(run.step.count)); }},
    {.key = "until_accuracy", .uses = kPairUse, .value = until_accuracy_value},
    {.key = "oversubscribed",
     .uses = kPairUse,
     .value =
         [](const Run& run) { return of_whole_run(run, run.oversubscribed ? "true" : "false"); }},
    {.key = "config/residency",
     .uses = kPairUse | kWorkUse | kNameUse | kRankUse,
     .config_key = "residency"},
    {.key = "config/deterministic",
     .uses = kPairUse | kWorkUse | kNameUse | kRankUse,
     .config_key = "deterministic"},
});

constexpr auto kStrategies =
    std::to_array<StrategyRow>({{.name = kBaseline},
                                {.name = "dp", .through_primary = true},
                                {.name = "ddp", .collective = "all_reduce"},
                                {.name = "ps"}});

// Calls `visit(row, key, value)` for every value of `run` whose setting has any of the bits `uses`.
template <typename Visit>
void for_each_value(const Run& run, unsigned uses, Visit visit) {
  for (const Setting& row : kTable) {
    if ((row.uses & uses) == 0) continue;
    if (row.value != nullptr) {
      visit(row, std::string(row.key), row.value(run));
    } else if (row.values != nullptr) {
      for (const auto& [name, value] : row.values(run)) {
        visit(row, fmt::format("{}/{}", row.key, name), value);
      }
    }
  }
}

}  // namespace

std::span<const Setting> setting_table() { return kTable; }

Settings settings_of(const Run& run, unsigned uses) {
  Settings settings;
  for_each_value(run, uses, [&](const Setting&, std::string key, const std::string& value) {
    if (!value.empty()) settings[std::move(key)] = value;
  });
  return settings;
}

Settings config_settings(const Report& report, unsigned uses) {
  Settings settings;
  const auto config = nlohmann::json::parse(report.config_json, nullptr, false);
  if (!config.is_object()) return settings;
  for (const Setting& row : kTable) {
    if ((row.uses & uses) == 0 || row.config_key.empty()) continue;
    const auto found = config.find(row.config_key);
    if (found == config.end() || found->is_null()) continue;
    settings[std::string(row.key)] = found->is_string() ? found->get<std::string>() : found->dump();
  }
  return settings;
}

// One pass over both, which are sorted: a sweep compares every cell with every other.
std::vector<std::string> differing_keys(const Settings& a, const Settings& b) {
  std::vector<std::string> keys;
  auto mine = a.begin();
  auto theirs = b.begin();
  while (mine != a.end() && theirs != b.end()) {
    const int order = mine->first.compare(theirs->first);
    if (order == 0 && mine->second != theirs->second) keys.push_back(mine->first);
    if (order <= 0) ++mine;
    if (order >= 0) ++theirs;
  }
  return keys;
}

bool is_usual_without(std::string_view key) {
  // A run that has the usual choice of these does not name it (planned_run()).
  constexpr std::string_view kOptions[] = {"strategy_options/sync_batch_norm",
                                           "strategy_options/devices_per_process",
                                           "strategy_options/loader_workers"};
  return std::ranges::count(kOptions, key) > 0 ||
         std::ranges::any_of(
             kTable, [&key](const Setting& row) { return row.key == key && !row.without.empty(); });
}

std::vector<std::string> different_words(const std::vector<std::string>& words,
                                         std::string_view without) {
  const bool all_empty =
      std::ranges::all_of(words, [](const std::string& word) { return word.empty(); });
  std::vector<std::string> different;
  std::unordered_set<std::string> known;
  for (const std::string& word : words) {
    std::string said = word.empty() && !all_empty ? std::string(without) : word;
    if (!said.empty() && known.insert(said).second) different.push_back(std::move(said));
  }
  return different;
}

std::string value_words(std::string_view key, const std::string& value) {
  std::string name(key.substr(key.find_last_of('/') + 1));
  if (name == "first_bucket_mb") return fmt::format("first bucket {} MiB", value);
  if (name == "bucket_cap_mb") return fmt::format("bucket cap {} MiB", value);
  if (name == "devices_per_process") return counted(value, "device") + " a process";
  if (name == "ps_update") return "update on the " + value;
  if (name == "server_device") return "servers on " + value;
  if (name == "cuda_graph") return "CUDA graphs " + value;
  if (name == kLoaderCost) return fmt::format("loader cost {} us a sample", value);
  if (name == kEmulatedGil) return fmt::format("emulated GIL {} us a call", value);
  if (name == "deterministic") return value == "true" ? name : "not " + name;
  std::ranges::replace(name, '_', ' ');
  return fmt::format("{} {}", name, value);
}

std::string with_note(const std::string& word, const std::string& note) {
  return note.empty() ? word : fmt::format("{} ({})", word, note);
}

std::vector<SettingWords> name_words(const Run& run) {
  std::vector<SettingWords> words;
  constexpr unsigned kUses = kNameUse | kStrategyNameUse;
  for_each_value(run, kUses, [&](const Setting& row, std::string key, const std::string& value) {
    std::string said = row.words != nullptr ? row.words(run) : value_words(key, value);
    const bool of_strategy = (row.uses & kStrategyNameUse) != 0;
    if (!said.empty()) words.push_back({std::move(key), std::move(said), of_strategy});
  });
  return words;
}

std::span<const StrategyRow> strategy_rows() { return kStrategies; }

StrategyRow strategy_row(std::string_view name) {
  const std::size_t rank = strategy_rank(name);
  return rank < kStrategies.size() ? kStrategies.at(rank) : StrategyRow{.name = name};
}

std::size_t strategy_rank(std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(kStrategies, name, &StrategyRow::name) -
                                  kStrategies.begin());
}

}  // namespace ddpbench::report
