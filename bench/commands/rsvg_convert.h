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

enum class PictureFormat : std::uint8_t { png, pdf };

// Returns the document `svg` as a PNG, with two pixels for each of its units, or as a PDF. Throws
// UnavailableError, with how to install it, when there is no rsvg-convert on PATH. Throws
// InternalError when it fails (with its message), draws nothing, or exceeds the deadline and is
// ended.
std::string rsvg_convert(std::string_view svg, PictureFormat format,
                         std::chrono::milliseconds deadline = kConvertDeadline);

}  // namespace ddpbench::bench
