// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/gate_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <set>

namespace ddpbench::report {
namespace {

void put(Settings& settings, const std::string& key, const std::string& value) {
  if (!value.empty()) settings[key] = value;
}

void put(Settings& settings, const std::string& key, std::integral auto value) {
  if (value != 0) settings[key] = std::to_string(value);
}

// What only a run that came to its end knows of itself.
void put_course(Settings& settings, const Run& run) {
  if (run.status != Status::ok) return;
  put(settings, "epochs", run.epochs.size());
  put(settings, "steps", run.step.count);
  settings["oversubscribed"] = run.oversubscribed ? "true" : "false";
}

void add_keys(std::set<std::string>& keys, std::span<const Report> reports) {
  for (const Report& report : reports) {
    for (const Run& run : report.runs) {
      for (const auto& [key, value] : settings_of(run)) {
        keys.insert(key);
        const std::size_t slash = key.find('/');
        if (slash == std::string::npos) continue;
        keys.insert(key.substr(0, slash));
        keys.insert(key.substr(slash + 1));
      }
    }
  }
}

}  // namespace

PairKey pair_key(const Run& run) {
  return {run.strategy, run.world_size, run.servers, run.backend};
}

Settings settings_of(const Run& run) {
  Settings settings;
  put(settings, "device", run.device);
  put(settings, "device_model", run.device_model);
  put(settings, "threads_per_device", run.threads_per_device);
  put(settings, "model", run.model);
  put(settings, "parameters", run.parameters);
  put(settings, "precision", run.precision);
  put(settings, "optimizer/name", run.optimizer_name);
  for (const auto& [name, value] : run.optimizer) {
    settings["optimizer/" + name] = fmt::format("{}", value);
  }
  put(settings, "per_device_batch_size", run.per_device_batch_size);
  put(settings, "global_batch_size", run.global_batch_size);
  put(settings, "accumulation_steps", run.accumulation_steps);
  put(settings, "scaling_mode", run.scaling_mode);
  put(settings, "dataset/name", run.dataset_name);
  put(settings, "dataset/source", run.dataset_source);
  put(settings, "dataset/train_samples", run.train_samples);
  put(settings, "dataset/test_samples", run.test_samples);
  for (const auto& [name, value] : run.strategy_options) {
    put(settings, "strategy_options/" + name, value);
  }
  put_course(settings, run);
  return settings;
}

// Side by side through both, which are sorted: sweeps compare every cell with every other.
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

bool is_allowed(const std::string& key, std::span<const std::string> allowed) {
  return std::ranges::any_of(allowed, [&key](const std::string& name) {
    return key == name || key.starts_with(name + '/') || key.ends_with('/' + name);
  });
}

std::vector<std::string> gate_setting_keys(std::span<const Report> fresh,
                                           std::span<const Report> base) {
  std::set<std::string> keys;
  add_keys(keys, fresh);
  add_keys(keys, base);
  return {keys.begin(), keys.end()};
}

}  // namespace ddpbench::report
