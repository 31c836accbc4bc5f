// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "datasets/curl_library.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/shared_library.h"

namespace ddpbench::data {
namespace {

constexpr const char* kName = "libcurl.so.4";

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(find_in_library(library, name));
  if (function == nullptr) throw UnavailableError(fmt::format("{} has no {}", kName, name));
}

}  // namespace

CurlLibrary::CurlLibrary() {
  // Stays open: libraries behind it keep handlers that run when the process ends.
  void* const library = open_library(kName, "downloads need libcurl (Debian's package libcurl4)");
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
