// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A file is a sequence of records, each a byte with the label and then the image's bytes: all of
// red, of green, of blue, row by row. Offsets in messages are those of a record's file, also where
// that lies in the archive.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
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

[[noreturn]] void refuse_record(const std::string& path, std::int64_t record, std::uint64_t offset,
                                const std::string& expected, const std::string& found) {
  throw ConfigError(fmt::format("{}: record {}, offset {}: expected {}, found {}", path, record,
                                offset, expected, found));
}

// The records of one file: what they look like, and how many there are.
struct CifarRecords {
  std::string path;
  std::int64_t count = 0;
  std::size_t image_bytes = 0;
  int classes = 0;

  std::size_t record_bytes() const { return 1 + image_bytes; }

  // Checks that a file of `bytes` holds whole records, and at most `most`, and counts them.
  void measure(std::uint64_t bytes, std::int64_t most) {
    count = static_cast<std::int64_t>(bytes / record_bytes());
    const std::uint64_t rest = bytes % record_bytes();
    if (rest != 0 || count == 0) {
      refuse_record(path, count, bytes, fmt::format("a record of {} bytes", record_bytes()),
                    fmt::format("the end of the file after {} of them (cut short)", rest));
    }
    if (count > most) {
      refuse_record(
          path, most, static_cast<std::uint64_t>(most) * record_bytes(),
          fmt::format("the end of the file after {} records, as published", most),
          fmt::format("{} more bytes", bytes - static_cast<std::uint64_t>(most) * record_bytes()));
    }
  }

  // Splits `record`, number `index` of the file, into its parts.
  void unpack(std::span<const std::uint8_t> record, std::int64_t index,
              std::span<std::uint8_t> image, std::uint16_t& label) const {
    label = record[0];
    if (label >= classes) {
      refuse_record(path, index, static_cast<std::uint64_t>(index) * record_bytes(),
                    fmt::format("a label of 0 to {}", classes - 1), fmt::to_string(label));
    }
    std::ranges::copy(record.subspan(1), image.begin());
  }
};

// Reads all records of a file through `read`, which fills what it is given or throws.
template <typename Read>
void read_records(const CifarRecords& records, const SplitMemory& split, std::int64_t first,
                  const Read& read) {
  std::vector<std::uint8_t> record(records.record_bytes());
  for (std::int64_t i = 0; i < records.count; ++i) {
    read(std::span(record), i);
    const auto at = static_cast<std::size_t>(first + i);
    records.unpack(record, i, split.images.subspan(at * records.image_bytes, records.image_bytes),
                   split.labels[at]);
  }
}

DatasetInfo info_of(const CatalogEntry& entry, const fs::path& directory) {
  return {.name = std::string(entry.name),
          .source = "files",
          .directory = directory.string(),
          .train_samples = 0,
          .test_samples = 0,
          .channels = entry.channels,
          .height = entry.height,
          .width = entry.width,
          .classes = entry.classes};
}

// The most records of a file: the published number.
std::int64_t published_in(const CatalogEntry& entry, std::size_t number) {
  return number == kTestFile ? entry.test_samples
                             : entry.train_samples / static_cast<std::int64_t>(kTrainFiles);
}

// Files that lie unpacked in a folder.
class CifarFolder final : public DatasetSource {
 public:
  // `numbers`: of the files that are there.
  CifarFolder(const CatalogEntry& entry, const fs::path& folder,
              const std::vector<std::size_t>& numbers)
      : info_(info_of(entry, folder)) {
    for (const std::size_t number : numbers) {
      CifarRecords records{.path = (folder / name_of_file(number)).string(),
                           .image_bytes = info_.sample_bytes(),
                           .classes = entry.classes};
      const FileBytes file(records.path);
      if (file.is_gzip()) {
        throw ConfigError(fmt::format("{}: expected records of {} bytes, found a gzip file",
                                      records.path, records.record_bytes()));
      }
      records.measure(file.size_on_disk(), published_in(entry, number));
      (number == kTestFile ? info_.test_samples : info_.train_samples) += records.count;
      files_.emplace_back(number, std::move(records));
    }
  }

  const DatasetInfo& info() const override { return info_; }

  void decode(std::span<std::byte> out) override {
    const DecodedParts parts = decoded_parts(info_, out);
    std::int64_t train = 0;
    for (const auto& [number, records] : files_) {
      FileBytes file(records.path);
      const auto read = [&](std::span<std::uint8_t> record, std::int64_t i) {
        const std::size_t n = file.read(record);
        if (n == record.size()) return;
        refuse_record(records.path, i, static_cast<std::uint64_t>(i) * record.size() + n,
                      fmt::format("a record of {} bytes", record.size()),
                      fmt::format("the end of the file after {} of them (cut short)", n));
      };
      const bool test = number == kTestFile;
      read_records(records, test ? parts.test : parts.train, test ? 0 : train, read);
      if (!test) train += records.count;
    }
  }

 private:
  std::vector<std::pair<std::size_t, CifarRecords>> files_;  // by number
  DatasetInfo info_;
};

// A tar archive (POSIX.1-1988 "ustar", also gzip): a header of 512 bytes precedes each file, whose
// contents are filled up to the next multiple of 512. Two blocks of zeros end the archive. Numbers
// are octal text. The header's checksum is the sum of its bytes, with blanks in place of the
// checksum.
constexpr std::size_t kBlock = 512;
using Block = std::array<std::uint8_t, kBlock>;

struct TarField {
  std::size_t offset, bytes;
};
constexpr TarField kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kType{156, 1},
    kPrefix{345, 155};

// The text of a field, which ends at its first zero.
std::string text_of(const Block& block, TarField field) {
  const std::string_view text(reinterpret_cast<const char*>(block.data()) + field.offset,
                              field.bytes);
  return std::string(text.substr(0, text.find('\0')));
}

// Octal digits between blanks; nothing for another text.
std::optional<std::uint64_t> number_of(const Block& block, TarField field) {
  const std::string text = text_of(block, field);
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return std::nullopt;
  const std::size_t end = std::min(text.find(' ', first), text.size());
  std::uint64_t value = 0;
  for (std::size_t i = first; i < end; ++i) {
    if (text[i] < '0' || text[i] > '7') return std::nullopt;
    value = value * 8 + static_cast<std::uint64_t>(text[i] - '0');
  }
  return value;
}

std::uint64_t checksum_of(const Block& block) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool blank = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.bytes;
    sum += blank ? ' ' : block[i];
  }
  return sum;
}

bool is_regular(const Block& block) {
  const char type = static_cast<char>(block[kType.offset]);
  return type == '0' || type == '\0';
}

// Reads the files of an archive one after the other.
class TarReader {
 public:
  // Throws ConfigError when the file cannot be read.
  explicit TarReader(const std::string& path);

  struct Member {
    std::string name;         // with its directories
    std::uint64_t bytes = 0;  // of its contents
  };
  // The next regular file; nothing at the end. Passes over what is left of the one before, and over
  // directories and links. Throws ConfigError, with the offset in the unpacked archive, for a
  // damaged header and for an archive that ends within a file.
  std::optional<Member> next();

  // Fills `out` with the next bytes of the file. REQUIRES: so many are left.
  void read(std::span<std::uint8_t> out);

 private:
  [[noreturn]] void fail(std::uint64_t offset, const std::string& expected,
                         const std::string& found) const;
  void read_whole(std::span<std::uint8_t> out);
  void skip(std::uint64_t bytes);

  std::string path_;
  FileBytes file_;
  std::uint64_t offset_ = 0;  // of the next byte to read
  std::uint64_t left_ = 0;    // of the member's contents
  std::uint64_t gap_ = 0;     // behind the contents, to the next header
};

TarReader::TarReader(const std::string& path) : path_(path), file_(path) {}

void TarReader::fail(std::uint64_t offset, const std::string& expected,
                     const std::string& found) const {
  throw ConfigError(fmt::format("{}: offset {} of the unpacked archive: expected {}, found {}",
                                path_, offset, expected, found));
}

std::optional<TarReader::Member> TarReader::next() {
  for (;;) {
    skip(left_ + gap_);
    left_ = gap_ = 0;
    Block block{};
    const std::uint64_t begin = offset_;
    const std::size_t n = file_.read(block);
    offset_ += n;
    if (n == 0 || (n == kBlock && std::ranges::all_of(block, [](auto b) { return b == 0; }))) {
      return std::nullopt;
    }
    if (n < kBlock) fail(offset_, "a header of 512 bytes", "the end of the file (truncated)");
    const auto checksum = number_of(block, kChecksum), size = number_of(block, kSize);
    if (checksum != checksum_of(block) || !size) {
      fail(begin, "the header of a file in a tar archive", "other bytes");
    }
    left_ = *size;
    gap_ = round_up(left_, std::uint64_t{kBlock}) - left_;
    if (!is_regular(block)) continue;
    const std::string prefix = text_of(block, kPrefix);
    return Member{(prefix.empty() ? "" : prefix + "/") + text_of(block, kName), left_};
  }
}

void TarReader::read(std::span<std::uint8_t> out) {
  ensure(out.size() <= left_, "{} bytes of a file that has {} left", out.size(), left_);
  read_whole(out);
  left_ -= out.size();
}

void TarReader::read_whole(std::span<std::uint8_t> out) {
  const std::size_t n = file_.read(out);
  offset_ += n;
  if (n < out.size()) {
    fail(offset_, fmt::format("{} more bytes", out.size() - n), "the end of the file (truncated)");
  }
}

void TarReader::skip(std::uint64_t bytes) {
  std::array<std::uint8_t, 16 * kBlock> ignored;
  while (bytes > 0) {
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, ignored.size()));
    read_whole(std::span(ignored).first(part));
    bytes -= part;
  }
}

// The archive as it was published, read in one pass. Only its size is looked at before.
class CifarArchive final : public DatasetSource {
 public:
  CifarArchive(const CatalogEntry& entry, const fs::path& path)
      : entry_(entry), path_(path.string()), info_(info_of(entry, path.parent_path())) {
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

  const DatasetInfo& info() const override { return info_; }

  void decode(std::span<std::byte> out) override {
    const DecodedParts parts = decoded_parts(info_, out);
    std::array<bool, kTrainFiles + 1> found{};
    TarReader archive(path_);
    while (const auto member = archive.next()) {
      const auto number = number_of_member(member->name);
      if (!number) continue;
      read_member(archive, *member, *number, *number == kTestFile ? parts.test : parts.train);
      found[*number] = true;
    }
    for (std::size_t number = 0; number < found.size(); ++number) {
      if (found[number]) continue;
      throw ConfigError(
          fmt::format("{}: there is no {}/{} in it", path_, kFolder, name_of_file(number)));
    }
  }

 private:
  static std::optional<std::size_t> number_of_member(const std::string& name) {
    for (std::size_t number = 0; number <= kTrainFiles; ++number) {
      if (name == fmt::format("{}/{}", kFolder, name_of_file(number))) return number;
    }
    return std::nullopt;
  }

  void read_member(TarReader& archive, const TarReader::Member& member, std::size_t number,
                   const SplitMemory& split) const {
    CifarRecords records{.path = fmt::format("{}: {}", path_, member.name),
                         .image_bytes = info_.sample_bytes(),
                         .classes = info_.classes};
    const std::int64_t expected = published_in(entry_, number);
    records.measure(member.bytes, expected);
    if (records.count != expected) {
      refuse_record(records.path, records.count, member.bytes,
                    fmt::format("{} records, as published", expected),
                    fmt::format("the end of the file after {}", records.count));
    }
    const auto read = [&](std::span<std::uint8_t> record, std::int64_t) { archive.read(record); };
    const bool test = number == kTestFile;
    read_records(records, split, test ? 0 : static_cast<std::int64_t>(number) * expected, read);
  }

  const CatalogEntry& entry_;
  std::string path_;
  DatasetInfo info_;
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
    throw ConfigError(
        fmt::format("data set {} is incomplete: {} is missing, while {} is there; `ddpbench data "
                    "fetch {}` gets all of it, which is used where {} has none of its files",
                    entry.name, (folder / name_of_file(needed)).string(),
                    name_of_file(numbers.front()), entry.name, folder.string()));
  }
  return numbers;
}

}  // namespace

std::unique_ptr<DatasetSource> open_cifar_dataset(const CatalogEntry& entry,
                                                  const std::string& directory) {
  const fs::path place = fs::path(directory) / entry.name;
  for (const fs::path& folder : {place, fs::path(directory) / kFolder, place / kFolder}) {
    const std::vector<std::size_t> numbers = files_in(entry, folder);
    if (!numbers.empty()) return std::make_unique<CifarFolder>(entry, folder, numbers);
  }
  const fs::path archive = place / entry.files[0].name;
  if (!is_there(archive.string())) return nullptr;
  return std::make_unique<CifarArchive>(entry, archive);
}

}  // namespace ddpbench::data
