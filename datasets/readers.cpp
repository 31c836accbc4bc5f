// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "datasets/readers.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>

#include "base/error.h"
#include "base/file.h"

namespace ddpbench::data {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kBufferBytes = 64 * 1024;
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // gzread's count is an int

}  // namespace

DatasetInfo info_of_files(const CatalogEntry& entry, const std::string& directory) {
  return {.name = std::string(entry.name),
          .source = "files",
          .directory = directory,
          .channels = entry.channels,
          .height = entry.height,
          .width = entry.width,
          .classes = entry.classes};
}

std::vector<fs::path> places_of(const CatalogEntry& entry, const fs::path& directory) {
  std::vector<fs::path> names{entry.name}, places;
  names.insert(names.end(), entry.folders.begin(), entry.folders.end());
  std::error_code ignored;
  const fs::path given = (fs::absolute(directory, ignored) / "").lexically_normal().parent_path();
  fs::path above = given;
  do {
    for (const fs::path& name : names) {
      const fs::path rest = (above / name).lexically_relative(given);
      if (rest.empty() || *rest.begin() == "..") continue;
      places.push_back(rest == "." ? directory : directory / rest);
    }
    above = above.parent_path();
  } while (above.has_relative_path());
  return places;
}

std::vector<std::string> forms_of(std::string_view packed) {
  const std::string plain(packed.substr(0, packed.rfind(".gz")));
  std::string dotted = plain;
  if (const std::size_t at = plain.find("-idx"); at != plain.npos) dotted[at] = '.';
  return {plain, dotted, plain + ".gz", dotted + ".gz"};
}

std::string foreign_words(const std::string& path) {
  FileBytes file(path);
  std::array<std::uint8_t, kHeadBytes> head{};
  const std::string words(
      foreign_format({reinterpret_cast<const char*>(head.data()), file.read(head)}));
  return file.is_gzip() && !words.empty() ? "within gzip " + words : words;
}

void disagree(const std::string& path, std::uint64_t offset, const std::string& expected,
              const std::string& found, std::optional<std::int64_t> record) {
  throw ConfigError(fmt::format("{}: {}offset {}: expected {}, found {}", path,
                                record ? fmt::format("record {}, ", *record) : "", offset, expected,
                                found));
}

bool is_there(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path, error);
  if (status.type() == std::filesystem::file_type::none) {
    throw ConfigError(fmt::format("cannot look for {}: {}", path, error.message()));
  }
  return status.type() != std::filesystem::file_type::not_found;
}

void FileBytes::Close::operator()(gzFile_s* file) const noexcept { gzclose_r(file); }

FileBytes::FileBytes(const std::string& path) : path_(path) {
  auto [file, bytes] = open_file(path);
  size_on_disk_ = bytes;
  file_.reset(gzdopen(file.get(), "rb"));
  if (!file_) throw std::bad_alloc();
  file.release();  // zlib closes it
  gzbuffer(file_.get(), kBufferBytes);
  gzip_ = gzdirect(file_.get()) == 0;
}

std::size_t FileBytes::read(std::span<std::uint8_t> out) {
  std::size_t filled = 0;
  while (filled < out.size()) {
    const auto most = static_cast<unsigned>(std::min(out.size() - filled, kMostAtOnce));
    const int n = gzread(file_.get(), out.data() + filled, most);
    if (n > 0) filled += static_cast<std::size_t>(n);
    if (n == static_cast<int>(most)) continue;
    int error = Z_OK;
    const char* text = gzerror(file_.get(), &error);
    if (error == Z_ERRNO) {
      throw ConfigError(fmt::format("{}: cannot be read: {}", path_, std::strerror(errno)));
    }
    if (error == Z_BUF_ERROR) text = "the end of the file (truncated)";
    if (error != Z_OK && error != Z_STREAM_END) {
      throw ConfigError(fmt::format("{}: expected a whole gzip stream, found: {}", path_, text));
    }
    break;
  }
  return filled;
}

}  // namespace ddpbench::data
