// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers in the text files of the kernel: /proc, /sys and control groups. What is absent or no
// number is nullopt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace ddpbench::bench {

// The number at the beginning of the file. A limit of a control group may be "max" there.
std::optional<std::uint64_t> first_number(const std::filesystem::path& path);

// The number behind `word` in the first line that begins with both: 12 for "pswpin" and the line
// "pswpin 12".
std::optional<std::uint64_t> number_after(std::string_view word, const std::filesystem::path& path);

}  // namespace ddpbench::bench
