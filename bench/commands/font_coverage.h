// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which characters the fonts of this machine can draw.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddpbench::bench {

// The characters of `text` (UTF-8) that no installed font has, each once, in their order.
// rsvg-convert draws a box for such a character. This asks fc-list, which finds fonts with the same
// library as rsvg-convert (fontconfig). Without fc-list the result is empty.
std::vector<std::string> characters_without_font(std::string_view text);

}  // namespace ddpbench::bench
