// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Libraries that a program opens only when it needs them.
#pragma once

#include <string>
#include <string_view>

namespace ddpbench {

// Opens the library at `path`, or of that name where the system's loader looks. It stays open until
// the process ends, or until close_library(). Throws UnavailableError of `failure`, a colon and the
// loader's own words, which name a missing library.
void* open_library(const std::string& path, std::string_view failure);
// The address of the function `name`; null: the library has none.
void* find_in_library(void* library, const char* name);
// Null is none, as for free().
void close_library(void* library);

}  // namespace ddpbench
