// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Names that are longer than their place in a picture. Private to reports/.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ddpbench::report {

// `text` where it is at most `width` wide, by `measure`; else its beginning and its end around an
// ellipsis: the strategy stands first, what tells runs apart last. Cuts no UTF-8 character.
std::string elided(const std::string& text, double width,
                   const std::function<double(std::string_view)>& measure);

}  // namespace ddpbench::report
