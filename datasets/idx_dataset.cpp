// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the files, checks that they agree, decodes them one after the other.
#include "datasets/idx_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "datasets/idx_file.h"

namespace ddpbench::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSide = 28;  // pixels

// True for anything of that name, also a broken link: opening it then says what is wrong.
bool is_there(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return false;
  if (status.type() == fs::file_type::none) {
    throw ConfigError(fmt::format("cannot look for {}: {}", path.string(), error.message()));
  }
  return true;
}

// The files as found, in the order of the catalog; empty when none is there.
std::vector<std::string> find_files(const CatalogEntry& entry, const fs::path& directory) {
  std::vector<std::string> found, missing;
  for (const CatalogFile& file : entry.files) {
    const fs::path plain = directory / file.name;
    const fs::path packed = plain.string() + ".gz";
    if (is_there(plain)) {
      found.push_back(plain.string());
    } else if (is_there(packed)) {
      found.push_back(packed.string());
    } else {
      missing.push_back(packed.string());
    }
  }
  if (found.empty() || missing.empty()) return found;
  throw ConfigError(
      fmt::format("data set {} is incomplete: {} missing (with or without .gz), while {} {} there; "
                  "`ddpbench data fetch {}` gets what is missing",
                  entry.name, fmt::join(missing, " and "), fmt::join(found, " and "),
                  found.size() == 1 ? "is" : "are", entry.name));
}

void check_shape(const CatalogEntry& entry, const IdxFile& images, const IdxFile& labels) {
  const IdxShape& shape = images.shape();
  if (shape.height != kSide || shape.width != kSide) {
    throw ConfigError(fmt::format("{}: offset 8: expected images of {} x {} for {}, found {} x {}",
                                  images.path(), kSide, kSide, entry.name, shape.height,
                                  shape.width));
  }
  if (labels.shape().count != shape.count) {
    throw ConfigError(
        fmt::format("{}: offset 4: expected {} labels, as many as there are images in {}, found {}",
                    labels.path(), shape.count, images.path(), labels.shape().count));
  }
}

class IdxSource : public DatasetSource {
 public:
  IdxSource(const CatalogEntry& entry, const fs::path& directory,
            const std::vector<std::string>& paths)
      : files_{IdxFile(paths[0], IdxKind::images), IdxFile(paths[1], IdxKind::labels),
               IdxFile(paths[2], IdxKind::images), IdxFile(paths[3], IdxKind::labels)} {
    check_shape(entry, files_[0], files_[1]);
    check_shape(entry, files_[2], files_[3]);
    info_ = {.name = std::string(entry.name),
             .source = "files",
             .directory = directory.string(),
             .train_samples = files_[0].shape().count,
             .test_samples = files_[2].shape().count,
             .channels = 1,
             .height = kSide,
             .width = kSide,
             .classes = entry.classes};
  }

  const DatasetInfo& info() const override { return info_; }

  void decode(std::span<std::byte> out) override {
    const auto parts = decoded_parts(info_, out);
    for (std::size_t i = 0; i < files_.size(); ++i) files_[i].read(parts[i]);
    check_labels(files_[1].path(), parts[1], info_.classes);
    check_labels(files_[3].path(), parts[3], info_.classes);
  }

 private:
  std::array<IdxFile, 4> files_;  // train images, train labels, test images, test labels
  DatasetInfo info_;
};

}  // namespace

std::unique_ptr<DatasetSource> open_idx_dataset(const CatalogEntry& entry,
                                                const std::string& directory) {
  const fs::path place = fs::path(directory) / entry.name;
  const std::vector<std::string> paths = find_files(entry, place);
  if (paths.empty()) return nullptr;
  return std::make_unique<IdxSource>(entry, place, paths);
}

}  // namespace ddpbench::data
