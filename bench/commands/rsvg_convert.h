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

// The document `svg` as a PNG, with two pixels for each of its units, or as a PDF. Throws
// UnavailableError, with how to install it, when there is no rsvg-convert on PATH; InternalError
// when it fails (its words are in the message), draws nothing, or is not done by the deadline, when
// it is ended.
std::string rsvg_convert(std::string_view svg, PictureFormat format,
                         std::chrono::milliseconds deadline = kConvertDeadline);

}  // namespace ddpbench::bench
