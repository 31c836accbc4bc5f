// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Downloads one file over HTTP and checks it while it arrives.
#pragma once

#include <functional>
#include <string>

#include "datasets/catalog_entry.h"

namespace ddpbench::data {

struct Download {
  std::string url;   // http or https; redirects may use either
  std::string path;  // destination; its directory exists
  Fingerprint expected;
  double timeout_s = 60;                                  // limit to connect and between two bytes
  std::function<void(const std::string& line)> progress;  // may be empty
};

// Throws UnavailableError (network, HTTP status) or ConfigError (wrong size or checksum, disk).
// After an error `path` is as it was before and no partial file is left.
void download_file(const Download& download);

}  // namespace ddpbench::data
