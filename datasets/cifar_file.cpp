// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A file is a sequence of records, each a byte with the label and then the image's bytes: all of
// red, of green, of blue, row by row.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "datasets/readers.h"

namespace ddpbench::data {
namespace {

namespace fs = std::filesystem;

class CifarSource final : public DatasetSource {
 public:
  // The files at these paths, of which the last one has the test samples.
  CifarSource(DatasetInfo info, const std::vector<std::string>& paths) : info_(std::move(info)) {
    for (const std::string& path : paths) {
      const FileBytes file(path);
      const std::uint64_t count = file.size_on_disk() / record_bytes();
      const std::uint64_t rest = file.size_on_disk() % record_bytes();
      const std::string foreign = file.is_gzip() ? "a gzip file"
                                  : rest == 0    ? ""
                                                 : foreign_words(path);
      if (!foreign.empty()) {
        throw ConfigError(fmt::format("{}: expected records of {} bytes, found {}", path,
                                      record_bytes(), foreign));
      }
      files_.push_back({path, static_cast<std::int64_t>(count)});
      if (rest != 0 || count == 0) refuse_end(files_.back(), files_.back().count, rest);
      (path == paths.back() ? info_.test_samples : info_.train_samples) += files_.back().count;
    }
  }

  const DatasetInfo& info() const override { return info_; }

  void decode(std::span<std::byte> out) override {
    const DecodedParts parts = decoded_parts(info_, out);
    std::int64_t first = 0;
    for (std::size_t i = 0; i + 1 < files_.size(); ++i) {
      read_records(files_[i], parts.train, first);
      first += files_[i].count;
    }
    read_records(files_.back(), parts.test, 0);
  }

 private:
  struct File {
    std::string path;
    std::int64_t count;  // of records
  };

  std::size_t record_bytes() const { return 1 + info_.sample_bytes(); }

  // Fills the samples of `split` from `first` on.
  void read_records(const File& file, const SplitMemory& split, std::int64_t first) const {
    FileBytes bytes(file.path);
    std::vector<std::uint8_t> record(record_bytes());
    for (std::int64_t i = 0; i < file.count; ++i) {
      const std::size_t n = bytes.read(record);
      if (n < record.size()) refuse_end(file, i, n);
      const auto at = static_cast<std::size_t>(first + i);
      split.labels[at] = record[0];
      std::ranges::copy(std::span(record).subspan(1),
                        split.images.subspan(at * info_.sample_bytes()).begin());
    }
  }

  [[noreturn]] void refuse_end(const File& file, std::int64_t record, std::uint64_t bytes) const {
    disagree(file.path, static_cast<std::uint64_t>(record) * record_bytes() + bytes,
             fmt::format("a record of {} bytes", record_bytes()),
             fmt::format("the end of the file after {} of them (cut short)", bytes), record);
  }

  DatasetInfo info_;
  std::vector<File> files_;
};

// The files that are in `folder`, as CifarSource takes them. Throws ConfigError when there are
// some, but not the test samples and the first training samples.
std::vector<std::string> files_in(const CatalogEntry& entry, const fs::path& folder) {
  std::vector<std::string> names, paths;
  for (int i = 1; i <= 5; ++i) names.push_back(fmt::format("data_batch_{}.bin", i));
  names.emplace_back("test_batch.bin");
  for (const std::string& name : names) {
    if (is_there((folder / name).string())) paths.push_back((folder / name).string());
  }
  if (paths.empty()) return paths;
  for (const std::string& needed : {names.front(), names.back()}) {
    const std::string path = (folder / needed).string();
    if (std::ranges::count(paths, path) != 0) continue;
    throw ConfigError(fmt::format(
        "data set {} is incomplete: {} is missing, while {} is there; `ddpbench data fetch {}` "
        "gets all of it, which is used where {} has none of its files",
        entry.name, path, paths.front(), entry.name, folder.string()));
  }
  return paths;
}

}  // namespace

std::unique_ptr<DatasetSource> open_cifar_dataset(const CatalogEntry& entry,
                                                  const std::string& directory) {
  for (const fs::path& folder : places_of(entry, directory)) {
    const std::vector<std::string> paths = files_in(entry, folder);
    if (paths.empty()) continue;
    return std::make_unique<CifarSource>(info_of_files(entry, folder.string()), paths);
  }
  return nullptr;
}

}  // namespace ddpbench::data
