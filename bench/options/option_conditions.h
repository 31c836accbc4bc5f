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

// Resets each option that does nothing beside the value of another option. If it was given in an
// earlier layer than that value, it was meant for another value, and nothing else happens. If it
// was given in the same or a later layer, or if that value is the default, throws ConfigError.
// `layers` are in the order file, variables, flags. REQUIRES: they were applied to `options`.
void settle_conditions(Options& options, std::span<const OptionSource* const> layers);

// Sets the options that no layer gives to the defaults of the optimizer, which are PyTorch's. Also
// replaces a learning rate or a weight decay that an earlier layer gave for another optimizer, and
// returns a line for people about each of these.
std::vector<std::string> set_optimizer_defaults(Options& options,
                                                std::span<const OptionSource* const> layers);

}  // namespace ddpbench::bench
