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
// rsvg-convert takes a font that has a character where there is one, and draws a box where there is
// none. Asks fc-list, of the same library (fontconfig); where that is not here, none is known to
// lack.
std::vector<std::string> characters_without_font(std::string_view text);

}  // namespace ddpbench::bench
