// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The known name that a misspelt one most likely means, for error messages.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddpbench {

// The nearest of `known` by edit distance, if it is near enough to suggest; a name of which one is
// a part is near, too. The first one wins a tie. Case, '-' and '_' do not matter.
std::optional<std::string> nearest_name(const std::string& name,
                                        const std::vector<std::string>& known);

// " Did you mean 'x'?" with the nearest name, to follow a sentence; empty when none is near.
std::string suggestion(const std::string& name, const std::vector<std::string>& known);

// Throws ConfigError `<where>: expected one of single, dp, got "ddb". Did you mean 'dp'?` unless
// `word` is one of `known`.
void check_word(const std::string& where, const std::string& word,
                const std::vector<std::string>& known);

// "; did you mean \"conv2d\"?" or, when none of `known` is near, "; known are conv2d, relu". Empty
// when `known` is empty.
std::string nearest_or_all(std::string_view name, std::span<const std::string_view> known);

}  // namespace ddpbench
