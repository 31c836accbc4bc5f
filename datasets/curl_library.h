// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// libcurl, opened when something is downloaded: it brings 27 further libraries, and binding them
// took two fifths of every start of the program.
#pragma once

#include <curl/curl.h>

namespace ddpbench::data {

// Its functions by their names without "curl_".
class CurlLibrary {
 public:
  // Throws UnavailableError where the library is not there, InternalError where it does not start.
  CurlLibrary();
  ~CurlLibrary();
  CurlLibrary(const CurlLibrary&) = delete;
  CurlLibrary& operator=(const CurlLibrary&) = delete;

  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;

 private:
  decltype(&::curl_global_init) global_init_ = nullptr;
  decltype(&::curl_global_cleanup) global_cleanup_ = nullptr;
};

}  // namespace ddpbench::data
