// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One file over HTTP, checked while it arrives.
#pragma once

#include <functional>
#include <string>

#include "datasets/catalog_entry.h"

namespace ddpbench::data {

struct Download {
  std::string url;   // http or https; so may be what it redirects to
  std::string path;  // where it goes; the directory exists
  Fingerprint expected;
  double timeout_s = 60;                                  // to connect, and without a byte
  std::function<void(const std::string& line)> progress;  // may be empty
};

// Throws UnavailableError (network, HTTP status) or ConfigError (size or checksum that disagree,
// disk). Then `path` is as it was before and no partial file is left.
void download_file(const Download& download);

}  // namespace ddpbench::data
