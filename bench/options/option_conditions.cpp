// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_conditions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/options/option_value.h"

namespace ddpbench::bench {
namespace {

using Layers = std::span<const OptionSource* const>;

// The last layer that gives the option; -1: none does.
std::ptrdiff_t last_layer_of(const std::string& option, Layers layers) {
  for (std::ptrdiff_t i = std::ssize(layers); i-- > 0;) {
    if (layers[static_cast<std::size_t>(i)]->find(option) != nullptr) return i;
  }
  return -1;
}

}  // namespace

void settle_conditions(Options& options, Layers layers) {
  for (const OptionDefinition& definition : option_table()) {
    if (is_heeded(options, definition)) continue;
    const std::string& other = definition.only_with.option;
    const nlohmann::json is = get_value(options, *find_flag(other));
    const std::string value = is.is_string() ? is.get<std::string>() : is.dump();
    const std::ptrdiff_t given = last_layer_of(definition.name, layers);
    const std::ptrdiff_t decided = last_layer_of(other, layers);
    reset_value(options, definition);
    if (given < 0 || given < decided) continue;
    const std::string decision =
        decided < 0 ? fmt::format("--{}={}, the default", other, value)
                    : fmt::format("{} ({})", value,
                                  layers[static_cast<std::size_t>(decided)]->find(other)->where);
    throw ConfigError(
        fmt::format("{}: it does nothing with {}; it is for --{}{}{}. Leave it out, or give that.",
                    layers[static_cast<std::size_t>(given)]->find(definition.name)->where, decision,
                    other, definition.only_with.values.empty() ? "" : "=",
                    fmt::join(definition.only_with.values, ", ")));
  }
}

std::vector<std::string> set_optimizer_defaults(Options& options, Layers layers) {
  std::vector<std::string> notes;
  const auto set = [&](const std::string& option, double Options::*member, double own) {
    const std::ptrdiff_t given = last_layer_of(option, layers);
    if (given >= 0) {
      const OptionSource& layer = *layers[static_cast<std::size_t>(given)];
      const OptionSource::Given* const beside = layer.find("optimizer");
      if (beside == nullptr || *beside->value == options.optimizer) return;
      if (options.*member != own) {
        notes.push_back(fmt::format("--{}={}, the default of {}: {} is for {}", option, own,
                                    options.optimizer, layer.find(option)->where,
                                    beside->value->get<std::string>()));
      }
    }
    options.*member = own;
  };
  set("lr", &Options::lr, options.optimizer == "sgd" ? Options{}.lr : 1e-3);
  set("weight-decay", &Options::weight_decay, options.optimizer == "adamw" ? 0.01 : 0);
  return notes;
}

}  // namespace ddpbench::bench
