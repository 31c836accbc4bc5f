// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench data fetch` and `data list`: downloads by libcurl, checks of SHA-256, atomic writes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "datasets/dataset.h"

namespace ddpbench::data {

struct FetchOptions {
  std::string directory;  // files go to <directory>/<name>/
  std::string base_url;   // empty: the data set's own; tests use a local server
  bool force = false;     // download again what is already there and correct
  double timeout_s = 60;  // limit for a pause without a byte
  std::function<void(const std::string& line)> progress;  // may be empty
};

// Downloads the files of a data set, and unpacks what CatalogEntry::unpacks_to says. Throws
// ConfigError (wrong checksum or size, naming URL, expected and found) or UnavailableError
// (network, HTTP status). A broken download leaves <file>.part, from which the next one goes on.
void fetch_files(const CatalogEntry& entry, const FetchOptions& options);

struct FileState {
  std::string name, path;
  bool present = false, correct = false;
  std::uint64_t bytes = 0;
};
// The published files of a data set as found in `directory`, with their checksums checked.
std::vector<FileState> inspect_files(const CatalogEntry& entry, const std::string& directory);

// $XDG_CACHE_HOME/ddpbench or ~/.cache/ddpbench, from the values passed in (may be null). Empty
// when neither is set.
std::string default_data_directory(const char* xdg_cache_home, const char* home);

// The SHA-256 (FIPS 180-4) of a file, in lower-case hexadecimal. Throws ConfigError when it cannot
// be read.
std::string file_sha256(const std::string& path);

}  // namespace ddpbench::data
