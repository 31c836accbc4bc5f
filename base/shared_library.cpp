// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/shared_library.h"

#include <dlfcn.h>

#include "base/error.h"

namespace ddpbench {

void* open_library(const std::string& path, std::string_view failure) {
  // RTLD_LOCAL keeps what the library brings private; RTLD_NOW shows a missing function here.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* const words = ::dlerror();
  throw UnavailableError(fmt::format("{}: {}", failure, words == nullptr ? path : words));
}

void* find_in_library(void* library, const char* name) { return ::dlsym(library, name); }

void close_library(void* library) {
  if (library != nullptr) ::dlclose(library);
}

}  // namespace ddpbench
