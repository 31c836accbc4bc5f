// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A file is a sequence of records, each a byte with the label and then the image's bytes: all of
// red, of green, of blue, row by row. The six files lie in a folder, or in the archive as it was
// published. Offsets in messages are those of a record's file, also where that lies in the archive.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
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

// What folder and archive have in common: the records of one file.
class CifarSource : public DatasetSource {
 public:
  const DatasetInfo& info() const override { return info_; }

 protected:
  CifarSource(const CatalogEntry& entry, const fs::path& directory)
      : entry_(entry), info_(info_of_files(entry, directory.string())) {}

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

  // Reads the next `count` records of `file` to the samples from `first` on.
  void read_records(const std::string& path, FileBytes& file, std::int64_t count,
                    const SplitMemory& split, std::int64_t first) const {
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

  const CatalogEntry& entry_;
  DatasetInfo info_;

 private:
  [[noreturn]] void refuse_end(const std::string& path, std::int64_t record,
                               std::uint64_t bytes) const {
    disagree(path, static_cast<std::uint64_t>(record) * record_bytes() + bytes,
             fmt::format("a record of {} bytes", record_bytes()),
             fmt::format("the end of the file after {} of them (cut short)", bytes), record);
  }
};

// Files that lie unpacked in a folder.
class CifarFolder final : public CifarSource {
 public:
  // `numbers`: of the files that are there.
  CifarFolder(const CatalogEntry& entry, const fs::path& folder,
              const std::vector<std::size_t>& numbers)
      : CifarSource(entry, folder) {
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

  void decode(std::span<std::byte> out) override {
    const DecodedParts parts = decoded_parts(info_, out);
    std::int64_t train = 0;
    for (const File& file : files_) {
      FileBytes bytes(file.path);
      const bool test = file.number == kTestFile;
      read_records(file.path, bytes, file.count, test ? parts.test : parts.train, test ? 0 : train);
      if (!test) train += file.count;
    }
  }

 private:
  struct File {
    std::size_t number;
    std::string path;
    std::int64_t count;
  };
  std::vector<File> files_;  // by number
};

// A tar archive (POSIX.1-1988 "ustar"): a header of 512 bytes precedes each file, whose contents
// are filled up to the next multiple of 512. Blocks of zeros end the archive.
constexpr std::size_t kTarBlock = 512;
struct TarMember {
  std::string name;
  std::uint64_t bytes = 0;
};

// Reads a member's header; nothing at the archive's end.
std::optional<TarMember> next_member(FileBytes& archive) {
  std::array<char, kTarBlock> header{};
  const std::size_t n =
      archive.read({reinterpret_cast<std::uint8_t*>(header.data()), header.size()});
  if (n < header.size() || header[0] == '\0') return std::nullopt;
  const std::string_view name(header.data(), 100), size(header.data() + 124, 11);
  TarMember member{.name = std::string(name.substr(0, name.find('\0')))};
  std::from_chars(size.data(), size.data() + size.size(), member.bytes, 8);
  return member;
}

// The archive as it was published, read in one pass. Only its size is looked at before.
class CifarArchive final : public CifarSource {
 public:
  CifarArchive(const CatalogEntry& entry, const fs::path& path)
      : CifarSource(entry, path.parent_path()), path_(path.string()) {
    const std::uint64_t bytes = FileBytes(path_).size_on_disk();
    const std::uint64_t published = entry.files[0].unpacked.bytes;
    if (bytes != published) {
      throw ConfigError(fmt::format(
          "{}: expected {} bytes, found {}; `ddpbench data fetch {}` downloads it again", path_,
          published, bytes, entry.name));
    }
    info_.train_samples = entry.train_samples;
    info_.test_samples = entry.test_samples;
  }

  void decode(std::span<std::byte> out) override {
    const DecodedParts parts = decoded_parts(info_, out);
    std::vector<std::string> missing;  // [number]; empty: found
    for (std::size_t number = 0; number <= kTestFile; ++number) {
      missing.push_back(fmt::format("{}/{}", kFolder, name_of_file(number)));
    }
    FileBytes archive(path_);
    while (const auto member = next_member(archive)) {
      std::uint64_t rest = round_up(member->bytes, std::uint64_t{kTarBlock});
      const auto found = std::ranges::find(missing, member->name);
      if (found != missing.end()) {
        const auto number = static_cast<std::size_t>(found - missing.begin());
        read_member(archive, *member, number, number == kTestFile ? parts.test : parts.train);
        rest -= member->bytes;
        found->clear();
      }
      archive.skip(rest);
    }
    const auto absent = std::ranges::find_if_not(missing, &std::string::empty);
    if (absent == missing.end()) return;
    throw ConfigError(fmt::format("{}: there is no {} in it", path_, *absent));
  }

 private:
  void read_member(FileBytes& archive, const TarMember& member, std::size_t number,
                   const SplitMemory& split) const {
    const std::string path = fmt::format("{}: {}", path_, member.name);
    const std::int64_t expected = published_in(number);
    const std::int64_t count = count_records(path, member.bytes, number);
    if (count != expected) {
      disagree(path, member.bytes, fmt::format("{} records, as published", expected),
               fmt::format("the end of the file after {}", count), count);
    }
    const bool test = number == kTestFile;
    read_records(path, archive, count, split,
                 test ? 0 : static_cast<std::int64_t>(number) * expected);
  }

  std::string path_;
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
    if (!numbers.empty()) return std::make_unique<CifarFolder>(entry, folder, numbers);
  }
  for (const fs::path& folder : places) {
    const fs::path archive = folder / entry.files[0].name;
    if (is_there(archive.string())) return std::make_unique<CifarArchive>(entry, archive);
  }
  return nullptr;
}

}  // namespace ddpbench::data
