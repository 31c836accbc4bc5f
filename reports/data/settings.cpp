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

std::string predicted_words(const Run& run) { return run.predicted ? "predicted" : ""; }

// Programs that do not record it train all epochs.
std::string until_accuracy_value(const Run& run) {
  if (!run.until_accuracy) return "off";
  return fmt::format("{:g}{}", run.until_accuracy->target,
                     run.until_accuracy->is_of_miou() ? " mIoU" : "");
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

// As much of it as is shown: enough to tell networks apart.
std::string hash_value(const Run& run) { return run.model_hash.substr(0, 8); }

std::string device_words(const Run& run) {
  return with_note(run.device == "unknown" ? "unknown device" : run.device, run.device_model);
}

std::string batch_words(const Run& run) {
  // Imports need not tell it.
  if (run.per_device_batch_size == 0 && run.global_batch_size == 0) return "";
  return run.scaling_mode == "strong" ? fmt::format("global batch {}", run.global_batch_size)
                                      : fmt::format("batch {} a device", run.per_device_batch_size);
}

// A step of one pass does not say so.
std::string passes_words(const Run& run) {
  return run.accumulation_steps > 1 ? fmt::format("{} passes", run.accumulation_steps) : "";
}

std::string servers_words(const Run& run) {
  return run.servers > 0 ? counted(run.servers, "server") : "";
}

// A run on one device has no backend. That alone makes no difference between runs.
std::string backend_words(const Run& run) { return run.backend == "none" ? "" : run.backend; }

// What a run spent beside its work (--loader-cost, --emulate-gil: microseconds; --emulate-link) is
// with the strategy's options. It makes other work of a run, so it has rows of its own.
constexpr std::string_view kLoaderCost = "loader_cost_us", kEmulatedGil = "emulated_gil_us",
                           kEmulatedLink = "emulated_link";

Settings other_strategy_options(const Run& run) {
  Settings values = run.strategy_options;
  for (const std::string_view key : {kLoaderCost, kEmulatedGil, kEmulatedLink})
    values.erase(std::string(key));
  return values;
}

// Programs that do not record it spend nothing, which names do not say.
template <const std::string_view& kKey>
std::string cost_value(const Run& run) {
  return option_of(run, kKey, "0");
}

std::string injected_words(const Run& run) {
  return run.injected.empty() ? "not injected" : "injected " + run.injected;
}

// A run that went on has trained as long as one that did all by itself.
std::string fixed_epochs(const Run& run) {
  const int before = run.resumed ? run.resumed->epoch : 0;
  return of_fixed_length(run, text_of(std::ssize(run.epochs) + before));
}

std::string fixed_steps(const Run& run) {
  const std::int64_t before = run.resumed ? run.resumed->step : 0;
  return of_fixed_length(run, text_of(run.step.count + before));
}

std::string oversubscribed_value(const Run& run) {
  return of_whole_run(run, run.oversubscribed ? "true" : "false");
}

// What runs that compete have in common, and what the titles of their table and chart state.
constexpr unsigned kJointUse = kEqualUse | kWorkUse | kNameUse | kRankUse;
constexpr unsigned kTitledUse = kJointUse | kTableTitleUse | kChartTitleUse;
constexpr unsigned kSubtitledUse = kJointUse | kTableTitleUse | kChartSubtitleUse;
constexpr unsigned kConfigUse = kPairUse | kNameUse;

constexpr auto kTable = std::to_array<Setting>({
    {"strategy", kCellUse | kPairKeyUse, value_of<&Run::strategy>},
    {"label", kCellUse | kNameUse, value_of<&Run::label>},
    // No kPairUse, no kRankUse: the gate refuses predictions, and nothing ranks them.
    {"predicted", kCellUse | kWorkUse | kNameUse, predicted_words, predicted_words, "measured"},
    {"world_size", kCellUse | kPairKeyUse, value_of<&Run::world_size>},
    {"servers", kCellUse | kPairKeyUse | kStrategyNameUse, value_of<&Run::servers>, servers_words},
    {"backend", kCellUse | kPairKeyUse | kStrategyNameUse, value_of<&Run::backend>, backend_words},
    // No kPairUse: the gate prefers runs with the same faults but takes others (gate_parts.h).
    {"injected", kCellUse | kStrategyNameUse, value_of<&Run::injected>, injected_words},
    {.key = "strategy_options",
     .uses = kEqualUse | kStrategyNameUse,
     .values = other_strategy_options},
    {"model", kTitledUse, value_of<&Run::model>},
    // The same name may stand for different networks.
    {"model_hash", kJointUse, hash_value},
    {"parameters", kPairUse, value_of<&Run::parameters>},
    {"dataset/name", kTitledUse, value_of<&Run::dataset_name>, dataset_words},
    {"dataset/source", kEqualUse | kRankUse, value_of<&Run::dataset_source>},
    {"dataset/augment", kTitledUse, augment_value, augment_words, "not augmented"},
    // The same name and source may stand for a part of the data.
    {"dataset/train_samples", kPairUse | kNameUse | kRankUse, value_of<&Run::train_samples>},
    {"dataset/test_samples", kPairUse | kNameUse | kRankUse, value_of<&Run::test_samples>},
    {"device", kSubtitledUse, value_of<&Run::device>, device_words},
    // No kCellUse: a run that failed early does not know it. repetition_groups() compares it.
    {"device_model", kPairUse | kWorkUse | kRankUse, value_of<&Run::device_model>},
    {"threads_per_device", kSubtitledUse, value_of<&Run::threads_per_device>},
    {"precision", kSubtitledUse, value_of<&Run::precision>},
    {"strategy_options/loader_cost_us", kTitledUse, cost_value<kLoaderCost>, nullptr,
     "no loader cost"},
    {"strategy_options/emulated_gil_us", kTitledUse, cost_value<kEmulatedGil>, nullptr,
     "no emulated GIL"},
    {"strategy_options/emulated_link", kTitledUse, cost_value<kEmulatedLink>, nullptr,
     "no emulated link"},
    {"scaling_mode", kEqualUse | kNameUse | kTableTitleUse | kChartTitleUse,
     value_of<&Run::scaling_mode>},
    {"per_device_batch_size", kEqualUse | kWeakWorkUse | kNameUse | kChartTitleUse,
     value_of<&Run::per_device_batch_size>, batch_words},
    {"global_batch_size", kEqualUse | kStrongWorkUse | kRankUse, value_of<&Run::global_batch_size>},
    {"accumulation_steps", kEqualUse | kWeakWorkUse | kNameUse | kChartTitleUse,
     value_of<&Run::accumulation_steps>, passes_words, "1 pass"},
    {"optimizer/name", kEqualUse | kNameUse, value_of<&Run::optimizer_name>},
    {.key = "optimizer", .uses = kEqualUse | kNameUse, .values = optimizer_values},
    {"epochs", kPairUse, fixed_epochs},
    {"steps", kPairUse, fixed_steps},
    {"until_accuracy", kPairUse, until_accuracy_value},
    {"oversubscribed", kPairUse, oversubscribed_value},
    {.key = "config/residency", .uses = kConfigUse, .config_key = "residency"},
    {.key = "config/deterministic", .uses = kConfigUse, .config_key = "deterministic"},
});

constexpr auto kStrategies = std::to_array<StrategyRow>({{kBaseline},
                                                         {"dp", "", true},
                                                         {"ddp", "all_reduce"},
                                                         {"ps"},
                                                         {"zero1", "", false, true},
                                                         {"zero2", "", false, true},
                                                         {"zero3", "", false, false, true},
                                                         {"localsgd"},
                                                         {"pipeline"}});

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
    settings[std::string(row.key)] =
        printable(found->is_string() ? found->get<std::string>() : found->dump());
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
  constexpr std::string_view kGroup = "strategy_options/";
  constexpr auto kOptions = std::to_array<std::string_view>(
      {"sync_batch_norm", "devices_per_process", "loader_workers", "ps_mode", "max_staleness",
       "backup_workers", "comm_hook", "outer_lr", "outer_momentum", "unit_mb", "cut"});
  const bool is_option = key.starts_with(kGroup);
  if (is_option && std::ranges::count(kOptions, key.substr(kGroup.size())) > 0) return true;
  return std::ranges::any_of(
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
  constexpr std::string_view kPlain[] = {"model", "name", "device", "device_model", "precision"};
  std::string name(key.substr(key.find_last_of('/') + 1));
  if (value.empty() || std::ranges::count(kPlain, name) > 0) return value;
  if (name == "model_hash") return "network " + value;
  if (name == "source") return "data from " + value;
  if (name == "train_samples") return counted(value, "training sample");
  if (name == "test_samples") return counted(value, "test sample");
  if (name == "threads_per_device") return counted(value, "thread") + " a device";
  if (name == "scaling_mode") return value + " scaling";
  if (name == "global_batch_size") return "global batch " + value;
  if (name == "accumulation_steps") return value == "1" ? "1 pass" : value + " passes";
  if (name == "accumulation_sync") return value == "every" ? "sync in every pass" : "sync once";
  if (name == "reduce_scatter") return "";  // the backend's
  if (name == "comm_hook") return value == "none" ? "no hook" : "hook " + value;
  if (name == "unit_mb") return value == "0" ? "" : fmt::format("units of {} MiB", value);
  if (name == "first_bucket_mb") return fmt::format("first bucket {} MiB", value);
  if (name == "bucket_cap_mb") return fmt::format("bucket cap {} MiB", value);
  if (name == "devices_per_process") return counted(value, "device") + " a process";
  if (name == "ps_update") return "update on the " + value;
  if (name == "sync_every" && value == "0") return "";  // not chosen
  if (name == "sync_every")
    return value == "1" ? "sync every step" : fmt::format("sync every {} steps", value);
  if ((name == "stages" || name == "micro_batches") && value == "0") return "";  // not chosen
  if (name == "stages") return counted(value, "stage");
  if (name == "micro_batches") return value + (value == "1" ? " micro-batch" : " micro-batches");
  if (name == "schedule") return value;
  if (name == "cut") return "cut behind " + value;
  if (name == "ps_mode") return value + " servers";
  if (name == "backup_workers") return counted(value, "backup worker");
  if (name == "max_staleness") return fmt::format("{} steps ahead at most", value);
  if (name == "server_device") return "servers on " + value;
  if (name == "cuda_graph") return "CUDA graphs " + value;
  if (name == kLoaderCost) return fmt::format("loader cost {} us a sample", value);
  if (name == kEmulatedGil) return fmt::format("emulated GIL {} us a call", value);
  if (name == "deterministic") return value == "true" ? name : "not " + name;
  std::ranges::replace(name, '_', ' ');
  return fmt::format("{} {}", name, value);
}

std::string setting_words(const Setting& setting, const Run& run) {
  if (setting.words != nullptr) return setting.words(run);
  const std::string value = setting.value(run);
  return value == "0" && !setting.without.empty() ? "" : value_words(setting.key, value);
}

std::string with_note(const std::string& word, const std::string& note) {
  return note.empty() ? word : fmt::format("{} ({})", word, note);
}

std::vector<SettingWords> name_words(const Run& run) {
  std::vector<SettingWords> words;
  constexpr unsigned kUses = kNameUse | kStrategyNameUse;
  for_each_value(run, kUses, [&](const Setting& row, std::string key, const std::string& value) {
    std::string said = row.values == nullptr ? setting_words(row, run) : value_words(key, value);
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
