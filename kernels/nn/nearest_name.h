// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The known name that a misspelt one most likely means.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ddpbench::nn {

// The candidate with the smallest Levenshtein distance to `name`, or "" when none is near: at most
// a third of the name's letters (two at least) may differ. The first one wins a tie.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

// "; did you mean \"conv2d\"?" or, when none is near, "; known are conv2d, relu". "" without
// candidates.
std::string suggestion(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace ddpbench::nn
