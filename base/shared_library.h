// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Libraries that a program opens only when it needs them.
#pragma once

#include <dlfcn.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace ddpbench {

// Opens the library at `path`, or of that name where the system's loader looks, until the process
// ends. Throws UnavailableError of `failure`, a colon and the loader's own words, which name a
// missing library.
inline void* open_library(const std::string& path, std::string_view failure) {
  // RTLD_LOCAL keeps what the library brings private; RTLD_NOW shows a missing function here.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* const words = ::dlerror();
  throw UnavailableError(fmt::format("{}: {}", failure, words == nullptr ? path : words));
}
// The address of the function `name`; null: the library has none.
inline void* find_in_library(void* library, const char* name) { return ::dlsym(library, name); }

}  // namespace ddpbench
