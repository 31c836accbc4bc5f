// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Works file by file: a file that is there and correct stays, the others are downloaded.
#include "datasets/fetch.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "datasets/catalog.h"
#include "datasets/download.h"
#include "datasets/sha256.h"

namespace ddpbench::data {
namespace {

namespace fs = std::filesystem;

FileState inspect(const fs::path& path, const Fingerprint& expected) {
  FileState state{.name = path.filename().string(), .path = path.string()};
  std::error_code error;
  state.present = fs::exists(path, error);
  if (!state.present || !fs::is_regular_file(path, error)) return state;
  state.bytes = fs::file_size(path, error);
  state.correct = state.bytes == expected.bytes && sha256_of_file(state.path) == expected.sha256;
  return state;
}

std::string published_name(const CatalogFile& file) {
  return std::string(file.name) + (file.has_packed() ? ".gz" : "");
}

const Fingerprint& published(const CatalogFile& file) {
  return file.has_packed() ? file.packed : file.unpacked;
}

// The state of the published form, or of the unpacked one when only that is there.
FileState inspect(const CatalogFile& file, const fs::path& directory) {
  const fs::path plain = directory / file.name;
  const FileState packed = inspect(directory / published_name(file), published(file));
  if (packed.present) return packed;
  const FileState unpacked = inspect(plain, file.unpacked);
  return unpacked.present ? unpacked : packed;
}

// A directory that is there while files are fetched into it. Takes away again those of its levels
// that it made and that are empty in the end, so that a failed download leaves none.
class MadeDirectory {
 public:
  // Throws ConfigError.
  explicit MadeDirectory(const fs::path& directory) {
    std::error_code error;
    for (fs::path level = directory; !level.empty() && !fs::exists(level, error);
         level = level.parent_path()) {
      made_.push_back(level);
    }
    fs::create_directories(directory, error);
    if (!error) return;
    remove_empty();
    throw ConfigError(
        fmt::format("cannot create {}: {}; --data-dir or DDPBENCH_DATA_DIR name another "
                    "place",
                    directory.string(), error.message()));
  }
  ~MadeDirectory() { remove_empty(); }
  MadeDirectory(const MadeDirectory&) = delete;
  MadeDirectory& operator=(const MadeDirectory&) = delete;

 private:
  // remove() refuses a directory that holds something, such as another process's download.
  void remove_empty() const noexcept {
    std::error_code ignored;
    for (const fs::path& level : made_) fs::remove(level, ignored);
  }

  std::vector<fs::path> made_;  // the deepest first
};

std::string url_of(const CatalogEntry& entry, const CatalogFile& file, const std::string& base) {
  std::string url = base.empty() ? std::string(entry.base_url) : base;
  if (!url.ends_with('/')) url += '/';
  return url + published_name(file);
}

void fetch_file(const Download& download, bool force) {
  const auto say = [&](const std::string& line) {
    if (download.progress) download.progress(line);
  };
  if (!force && inspect(fs::path(download.path), download.expected).correct) {
    say(fmt::format("{}: already there, {} bytes, SHA-256 as published", download.path,
                    download.expected.bytes));
    return;
  }
  say(fmt::format("{}: {} bytes from {}", download.path, download.expected.bytes, download.url));
  download_file(download);
}

}  // namespace

void fetch_files(const CatalogEntry& entry, const FetchOptions& options) {
  if (entry.files.empty()) {
    throw ConfigError(fmt::format(
        "data set {} has no files to fetch: its samples are drawn when it is used", entry.name));
  }
  if (options.directory.empty()) {
    throw ConfigError(
        fmt::format("no directory to put data set {} into: there is neither HOME nor "
                    "XDG_CACHE_HOME; --data-dir "
                    "or DDPBENCH_DATA_DIR name one",
                    entry.name));
  }
  const fs::path directory = fs::path(options.directory) / entry.name;
  const MadeDirectory made(directory);
  for (const CatalogFile& file : entry.files) {
    fetch_file({.url = url_of(entry, file, options.base_url),
                .path = (directory / published_name(file)).string(),
                .expected = published(file),
                .timeout_s = options.timeout_s,
                .progress = options.progress},
               options.force);
  }
}

std::vector<FileState> inspect_files(const CatalogEntry& entry, const std::string& directory) {
  std::vector<FileState> states;
  for (const CatalogFile& file : entry.files) {
    states.push_back(inspect(file, fs::path(directory) / entry.name));
  }
  return states;
}

void fetch_dataset(const std::string& name, const FetchOptions& options) {
  fetch_files(find_in_catalog(name), options);
}

// As the XDG Base Directory Specification requires, a relative XDG_CACHE_HOME is ignored.
std::string default_data_directory(const char* xdg_cache_home, const char* home) {
  if (xdg_cache_home != nullptr && xdg_cache_home[0] == '/') {
    return (fs::path(xdg_cache_home) / "ddpbench").string();
  }
  if (home == nullptr || home[0] == '\0') return "";
  return (fs::path(home) / ".cache" / "ddpbench").string();
}

}  // namespace ddpbench::data
