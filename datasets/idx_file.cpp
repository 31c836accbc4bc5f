// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A file holds big-endian 32-bit numbers, then the data, row by row. The numbers are the magic
// (0x0800 for bytes, plus the number of dimensions) and the dimensions. Offsets in messages are
// those of the unpacked contents.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "datasets/readers.h"

namespace ddpbench::data {
namespace {

constexpr std::uint32_t kMagicOfBytes = 0x0800;
// An image with a larger side is damaged. Keeps count * height * width below 2^56.
constexpr std::int64_t kLargestSide = 4096;
// Deflate cannot pack better: 258 bytes in at least 2 bits (zlib, "Maximum compression factor").
constexpr std::uint64_t kBestDeflateRatio = 1032;

enum class IdxKind : std::uint8_t { images, labels };

struct IdxShape {
  std::int64_t count = 0;
  std::int64_t height = 1, width = 1;  // 1 for labels
  std::int64_t payload_bytes() const { return count * height * width; }
  bool operator==(const IdxShape&) const = default;
};

class IdxFile {
 public:
  // Reads and checks the header only. Throws ConfigError naming file, offset, expected and found.
  IdxFile(std::string path, IdxKind kind);

  const std::string& path() const { return path_; }
  const IdxShape& shape() const { return shape_; }

  // Fills `out`, which has shape().payload_bytes(), and checks that the file ends there. Throws
  // ConfigError for a file that is shorter, longer or damaged, or whose header has changed.
  void read(std::span<std::uint8_t> out) const;

 private:
  std::string path_;
  IdxKind kind_;
  IdxShape shape_;
};

[[noreturn]] void disagree(const std::string& path, std::uint64_t offset,
                           const std::string& expected, const std::string& found) {
  throw ConfigError(
      fmt::format("{}: offset {}: expected {}, found {}", path, offset, expected, found));
}

std::size_t dimensions_of(IdxKind kind) { return kind == IdxKind::images ? 3 : 1; }

std::size_t header_bytes(IdxKind kind) { return 4 + 4 * dimensions_of(kind); }

std::uint32_t big_endian(std::span<const std::uint8_t, 4> bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
         static_cast<std::uint32_t>(bytes[2]) << 8 | static_cast<std::uint32_t>(bytes[3]);
}

void check_side(const std::string& path, std::uint64_t offset, const char* what,
                std::int64_t value) {
  if (value >= 1 && value <= kLargestSide) return;
  disagree(path, offset, fmt::format("an image {} of 1 to {}", what, kLargestSide),
           fmt::to_string(value));
}

// Reads the header from the start of `file`.
IdxShape read_header(const std::string& path, IdxKind kind, FileBytes& file) {
  std::array<std::uint8_t, 16> bytes{};
  const std::span<std::uint8_t> header = std::span(bytes).first(header_bytes(kind));
  const std::size_t n = file.read(header);
  const auto number = [&](std::size_t at) {
    return big_endian(std::span<const std::uint8_t, 4>(bytes.data() + at, 4));
  };
  const std::uint32_t magic = kMagicOfBytes + static_cast<std::uint32_t>(dimensions_of(kind));
  if (n >= 4 && number(0) != magic) {
    disagree(path, 0,
             fmt::format("magic number {} (IDX {})", magic,
                         kind == IdxKind::images ? "images" : "labels"),
             fmt::format("{} (0x{:08x})", number(0), number(0)));
  }
  if (n < header.size()) {
    disagree(path, n, fmt::format("a header of {} bytes", header.size()),
             "the end of the file (truncated)");
  }
  IdxShape shape{.count = number(4)};
  if (shape.count == 0) disagree(path, 4, "a count of at least 1", "0");
  if (kind == IdxKind::images) {
    shape.height = number(8);
    shape.width = number(12);
    check_side(path, 8, "height", shape.height);
    check_side(path, 12, "width", shape.width);
  }
  return shape;
}

// Checks what the size on disk alone can tell, so that no memory is made for absent data.
void check_size(const std::string& path, IdxKind kind, const IdxShape& shape,
                const FileBytes& file) {
  const auto payload = static_cast<std::uint64_t>(shape.payload_bytes());
  const std::uint64_t promised = header_bytes(kind) + payload;
  const std::string expected =
      fmt::format("{} bytes as its header says ({} x {} x {} after {} bytes of header)", promised,
                  shape.count, shape.height, shape.width, header_bytes(kind));
  const std::uint64_t size = file.size_on_disk();
  if (file.is_gzip()) {
    if (promised / kBestDeflateRatio <= size) return;
    disagree(path, 4, expected, fmt::format("a gzip file of {} bytes, too short for that", size));
  }
  if (size < promised) {
    disagree(path, size, expected, fmt::format("the end of the file at {} (truncated)", size));
  }
  if (size > promised) {
    disagree(path, promised, expected, fmt::format("{} bytes more", size - promised));
  }
}

IdxFile::IdxFile(std::string path, IdxKind kind) : path_(std::move(path)), kind_(kind) {
  FileBytes file(path_);
  shape_ = read_header(path_, kind_, file);
  check_size(path_, kind_, shape_, file);
}

void IdxFile::read(std::span<std::uint8_t> out) const {
  const auto payload = static_cast<std::size_t>(shape_.payload_bytes());
  ensure(out.size() == payload, "{}: {} bytes of room for {}", path_, out.size(), payload);
  FileBytes file(path_);
  if (read_header(path_, kind_, file) != shape_) {
    disagree(path_, 4, "the dimensions that were there when it was opened", "others");
  }
  const std::size_t header = header_bytes(kind_);
  const std::size_t n = file.read(out);
  if (n < payload) {
    disagree(path_, header + n, fmt::format("{} bytes of data", payload),
             fmt::format("the end after {} (truncated)", n));
  }
  // Reading on past the data also makes zlib compare the checksum behind them.
  std::array<std::uint8_t, 1> more{};
  if (file.read(more) != 0) {
    disagree(path_, header + payload, "the end of the file", "more bytes");
  }
}

// Throws ConfigError, naming offset and record of the first label that is not in [0, classes).
void check_labels(const std::string& path, std::span<const std::uint8_t> labels, int classes) {
  const auto bad =
      std::ranges::find_if(labels, [&](std::uint8_t label) { return label >= classes; });
  if (bad == labels.end()) return;
  disagree(path, header_bytes(IdxKind::labels) + static_cast<std::size_t>(bad - labels.begin()),
           fmt::format("a label of 0 to {} for record {}", classes - 1, bad - labels.begin()),
           fmt::to_string(*bad));
}

namespace fs = std::filesystem;

constexpr std::int64_t kSide = 28;  // pixels

// The files as found, in the order of the catalog; empty when none is there.
std::vector<std::string> find_files(const CatalogEntry& entry, const fs::path& directory) {
  std::vector<std::string> found, missing;
  for (const CatalogFile& file : entry.files) {
    const fs::path plain = directory / file.name;
    const fs::path packed = plain.string() + ".gz";
    if (is_there(plain.string())) {
      found.push_back(plain.string());
    } else if (is_there(packed.string())) {
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
    const DecodedParts parts = decoded_parts(info_, out);
    read_split(files_[0], files_[1], parts.train);
    read_split(files_[2], files_[3], parts.test);
  }

 private:
  // Labels are bytes in the files and wider in memory.
  void read_split(const IdxFile& images, const IdxFile& labels, const SplitMemory& split) const {
    images.read(split.images);
    std::vector<std::uint8_t> bytes(split.labels.size());
    labels.read(bytes);
    check_labels(labels.path(), bytes, info_.classes);
    std::ranges::copy(bytes, split.labels.begin());
  }

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
