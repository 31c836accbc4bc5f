// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Options whose meaning depends on another option: those that do something with some of its values
// only (OptionDefinition::only_with), and those whose default it decides.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/options/option_source.h"
#include "bench/options/option_table.h"

namespace ddpbench::bench {

// Throws ConfigError for an option that does nothing beside a value which was given in the same of
// `layers` (in their order: file, variables, flags), in an earlier one, or is the default. One of
// an earlier layer than that value belonged to another value: it goes back to its default.
// REQUIRES: the layers were applied to `options`.
void settle_conditions(Options& options, std::span<const OptionSource* const> layers);

// Sets what no layer gives to the optimizer's defaults, which are PyTorch's; also a learning rate
// and a weight decay that an earlier layer gives beside another optimizer. Returns a line on each
// of these, for people.
std::vector<std::string> set_optimizer_defaults(Options& options,
                                                std::span<const OptionSource* const> layers);

}  // namespace ddpbench::bench
