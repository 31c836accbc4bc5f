// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A file is a sequence of records, each a byte with the label and then the image's bytes: all of
// red, of green, of blue, row by row. The six files lie in a folder, or in the archive as it was
// published. Offsets in messages are those of a record's file, also where that lies in the archive.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "datasets/readers.h"

namespace ddpbench::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolder = "cifar-10-batches-bin";  // of the files in the archive
constexpr std::size_t kTrainFiles = 5;
constexpr std::size_t kTestFile = kTrainFiles;  // its number among the files

std::string name_of_file(std::size_t number) {
  return number == kTestFile ? "test_batch.bin" : fmt::format("data_batch_{}.bin", number + 1);
}

class CifarSource final : public DatasetSource {
 public:
  // The files of these numbers, which lie unpacked in a folder.
  CifarSource(const CatalogEntry& entry, const fs::path& folder,
              const std::vector<std::size_t>& numbers)
      : entry_(entry), info_(info_of_files(entry, folder.string())) {
    for (const std::size_t number : numbers) {
      const std::string path = (folder / name_of_file(number)).string();
      const FileBytes file(path);
      const bool whole = file.size_on_disk() % record_bytes() == 0;
      const std::string foreign = file.is_gzip() ? "a gzip file" : whole ? "" : foreign_words(path);
      if (!foreign.empty()) {
        throw ConfigError(fmt::format("{}: expected records of {} bytes, found {}", path,
                                      record_bytes(), foreign));
      }
      files_.push_back({number, path, count_records(path, file.size_on_disk(), number)});
      (number == kTestFile ? info_.test_samples : info_.train_samples) += files_.back().count;
    }
  }

  // The archive as it was published, read in one pass. Only its size is looked at before.
  CifarSource(const CatalogEntry& entry, const fs::path& archive)
      : entry_(entry),
        info_(info_of_files(entry, archive.parent_path().string())),
        archive_(archive.string()) {
    const std::uint64_t bytes = FileBytes(archive_).size_on_disk();
    const std::uint64_t published = entry.files[0].unpacked.bytes;
    if (bytes != published) {
      throw ConfigError(fmt::format(
          "{}: expected {} bytes, found {}; `ddpbench data fetch {}` downloads it again", archive_,
          published, bytes, entry.name));
    }
    info_.train_samples = entry.train_samples;
    info_.test_samples = entry.test_samples;
  }

  const DatasetInfo& info() const override { return info_; }

  void decode(std::span<std::byte> out) override {
    const DecodedParts parts = decoded_parts(info_, out);
    if (!archive_.empty()) return decode_archive(parts);
    std::int64_t train = 0;
    for (const File& file : files_) {
      FileBytes bytes(file.path);
      read_records(file.path, bytes, file.number, file.count, parts, train);
      if (file.number != kTestFile) train += file.count;
    }
  }

 private:
  struct File {
    std::size_t number;
    std::string path;
    std::int64_t count;
  };

  std::size_t record_bytes() const { return 1 + info_.sample_bytes(); }

  // The most records of a file: the published number.
  std::int64_t published_in(std::size_t number) const {
    return number == kTestFile ? entry_.test_samples
                               : entry_.train_samples / static_cast<std::int64_t>(kTrainFiles);
  }

  // The records of file `number`, of so many bytes. Throws ConfigError unless they are whole, and
  // no more than were published.
  std::int64_t count_records(const std::string& path, std::uint64_t bytes,
                             std::size_t number) const {
    const auto count = static_cast<std::int64_t>(bytes / record_bytes());
    const std::int64_t most = published_in(number);
    if (bytes % record_bytes() != 0 || count == 0) refuse_end(path, count, bytes % record_bytes());
    if (count > most) {
      const std::uint64_t end = static_cast<std::uint64_t>(most) * record_bytes();
      disagree(path, end, fmt::format("the end of the file after {} records, as published", most),
               fmt::format("{} more bytes", bytes - end), most);
    }
    return count;
  }

  // Reads the next `count` records of `file`, which is file `number`: to the test samples, or to
  // the training samples from `first` on.
  void read_records(const std::string& path, FileBytes& file, std::size_t number,
                    std::int64_t count, const DecodedParts& parts, std::int64_t first) const {
    const SplitMemory& split = number == kTestFile ? parts.test : parts.train;
    if (number == kTestFile) first = 0;
    std::vector<std::uint8_t> record(record_bytes());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::size_t n = file.read(record);
      if (n < record.size()) refuse_end(path, i, n);
      if (record[0] >= info_.classes) {
        disagree(path, static_cast<std::uint64_t>(i) * record.size(),
                 fmt::format("a label of 0 to {}", info_.classes - 1), fmt::to_string(record[0]),
                 i);
      }
      const auto at = static_cast<std::size_t>(first + i);
      split.labels[at] = record[0];
      std::ranges::copy(std::span(record).subspan(1),
                        split.images.subspan(at * info_.sample_bytes()).begin());
    }
  }

  void decode_archive(const DecodedParts& parts) const {
    std::vector<std::string> missing;  // [number]; empty: found
    for (std::size_t number = 0; number <= kTestFile; ++number) {
      missing.push_back(fmt::format("{}/{}", kFolder, name_of_file(number)));
    }
    FileBytes archive(archive_);
    while (const auto member = next_member(archive)) {
      std::uint64_t rest = round_up(member->bytes, kTarBlock);
      const auto found = std::ranges::find(missing, member->name);
      if (found != missing.end()) {
        read_member(archive, *member, static_cast<std::size_t>(found - missing.begin()), parts);
        rest -= member->bytes;
        found->clear();
      }
      archive.skip(rest);
    }
    const auto absent = std::ranges::find_if_not(missing, &std::string::empty);
    if (absent == missing.end()) return;
    throw ConfigError(fmt::format("{}: there is no {} in it", archive_, *absent));
  }

  void read_member(FileBytes& archive, const TarMember& member, std::size_t number,
                   const DecodedParts& parts) const {
    const std::string path = fmt::format("{}: {}", archive_, member.name);
    const std::int64_t expected = published_in(number);
    const std::int64_t count = count_records(path, member.bytes, number);
    if (count != expected) {
      disagree(path, member.bytes, fmt::format("{} records, as published", expected),
               fmt::format("the end of the file after {}", count), count);
    }
    read_records(path, archive, number, count, parts, static_cast<std::int64_t>(number) * expected);
  }

  [[noreturn]] void refuse_end(const std::string& path, std::int64_t record,
                               std::uint64_t bytes) const {
    disagree(path, static_cast<std::uint64_t>(record) * record_bytes() + bytes,
             fmt::format("a record of {} bytes", record_bytes()),
             fmt::format("the end of the file after {} of them (cut short)", bytes), record);
  }

  const CatalogEntry& entry_;
  DatasetInfo info_;
  std::vector<File> files_;  // of a folder, by number
  std::string archive_;      // its path; empty: the files are in a folder
};

// The numbers of the files that are in `folder`. Throws ConfigError when there are some, but not
// the test samples and the first training samples.
std::vector<std::size_t> files_in(const CatalogEntry& entry, const fs::path& folder) {
  std::vector<std::size_t> numbers;
  for (std::size_t number = 0; number <= kTestFile; ++number) {
    if (is_there((folder / name_of_file(number)).string())) numbers.push_back(number);
  }
  if (numbers.empty()) return numbers;
  for (const std::size_t needed : {std::size_t{0}, kTestFile}) {
    if (std::ranges::count(numbers, needed) != 0) continue;
    throw ConfigError(fmt::format(
        "data set {} is incomplete: {} is missing, while {} is there; `ddpbench data fetch {}` "
        "gets all of it, which is used where {} has none of its files",
        entry.name, (folder / name_of_file(needed)).string(), name_of_file(numbers.front()),
        entry.name, folder.string()));
  }
  return numbers;
}

}  // namespace

std::unique_ptr<DatasetSource> open_cifar_dataset(const CatalogEntry& entry,
                                                  const std::string& directory) {
  const std::vector<fs::path> places = places_of(entry, directory);
  for (const fs::path& folder : places) {
    const std::vector<std::size_t> numbers = files_in(entry, folder);
    if (!numbers.empty()) return std::make_unique<CifarSource>(entry, folder, numbers);
  }
  for (const fs::path& folder : places) {
    const fs::path archive = folder / entry.files[0].name;
    if (is_there(archive.string())) return std::make_unique<CifarSource>(entry, archive);
  }
  return nullptr;
}

}  // namespace ddpbench::data
