// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs rsvg-convert, the program of librsvg that turns SVG into other formats.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddpbench::bench {

inline constexpr std::chrono::seconds kConvertDeadline{60};

// fine_png has two pixels for each unit of the document, png has one.
enum class PictureFormat : std::uint8_t { fine_png, png, pdf };

// Returns the document `svg` in another format. Throws UnavailableError, with how to install it,
// when there is no rsvg-convert on PATH. Throws InternalError when it fails (with its message),
// draws nothing, or exceeds the deadline and is ended.
std::string rsvg_convert(std::string_view svg, PictureFormat format,
                         std::chrono::milliseconds deadline = kConvertDeadline);

}  // namespace ddpbench::bench
