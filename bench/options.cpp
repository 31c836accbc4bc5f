// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/option_layer.h"
#include "bench/option_value.h"
#include "kernels/runtime/error.h"

namespace ddpbench::bench {

std::int64_t run_count(const Options& options) {
  const auto device_counts = options.all_gpus ? 1 : static_cast<std::int64_t>(options.gpus.size());
  std::int64_t runs = 0;
  for (const std::string& strategy : options.strategies)
    runs += strategy == "single" ? 1 : device_counts;
  return runs * options.repetitions;
}

void check_options(const Options& options) {
  if (!options.trace_path.empty() && !options.observe)
    throw ConfigError(
        fmt::format("--trace={}: --observe=off leaves nothing to trace", options.trace_path));
  if (!options.trace_path.empty() && options.trace_path == options.json_path)
    throw ConfigError(fmt::format("--trace and --json both name {}", options.trace_path));
  if (!options.save_model.empty() && run_count(options) > 1)
    throw ConfigError(fmt::format(
        "--save-model={}: this command makes {} runs, which would overwrite each other's weights. "
        "Give one strategy, one number of devices and one repetition.",
        options.save_model, run_count(options)));
  const bool several = std::ranges::any_of(
      options.strategies, [](const std::string& name) { return name != "single"; });
  if (!options.global_batch_size || !several) return;
  const std::int64_t global = *options.global_batch_size;
  for (const int devices : options.gpus)
    if (global % devices != 0)
      throw ConfigError(fmt::format(
          "--global-batch-size={} cannot be divided by --gpus={}: each of the {} devices must get "
          "the same number of samples. The next size that can is {}.",
          global, devices, devices, (global / devices + 1) * devices));
}

nlohmann::ordered_json to_json(const Options& options) {
  nlohmann::ordered_json result;
  for (const OptionDefinition& definition : option_table()) {
    const nlohmann::json value = get_value(options, definition);
    if (value.is_null()) continue;
    result[nlohmann::ordered_json::json_pointer(definition.canonical_key())] = value;
  }
  return result;
}

Options options_from_json(const nlohmann::json& json) {
  Options options;
  file_layer(json, "options", kAnywhere).apply(options);
  return options;
}

}  // namespace ddpbench::bench
