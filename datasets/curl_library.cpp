// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "datasets/curl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/error.h"

namespace ddpbench::data {
namespace {

constexpr const char* kName = "libcurl.so.4";

// Stays open: libraries behind it keep handlers that run when the process ends.
void* open_library() {
  void* const library = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* const words = ::dlerror();
  throw UnavailableError(fmt::format("downloads need libcurl (Debian's package libcurl4): {}",
                                     words == nullptr ? kName : words));
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) throw UnavailableError(fmt::format("{} has no {}", kName, name));
}

}  // namespace

CurlLibrary::CurlLibrary() {
  void* const library = open_library();
  find(library, "curl_easy_init", easy_init);
  find(library, "curl_easy_setopt", easy_setopt);
  find(library, "curl_easy_perform", easy_perform);
  find(library, "curl_easy_getinfo", easy_getinfo);
  find(library, "curl_easy_strerror", easy_strerror);
  find(library, "curl_easy_cleanup", easy_cleanup);
  find(library, "curl_global_init", global_init_);
  find(library, "curl_global_cleanup", global_cleanup_);
  // libcurl counts its users, so that pairs of init and cleanup may nest.
  ensure(global_init_(CURL_GLOBAL_DEFAULT) == CURLE_OK, "libcurl does not start");
}

CurlLibrary::~CurlLibrary() { global_cleanup_(); }

}  // namespace ddpbench::data
