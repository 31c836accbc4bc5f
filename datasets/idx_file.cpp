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

namespace fs = std::filesystem;

constexpr std::uint32_t kMagicOfBytes = 0x0800;
constexpr std::uint32_t kSide = 28;  // pixels
// Deflate cannot pack better: 258 bytes in at least 2 bits (zlib, "Maximum compression factor").
constexpr std::uint64_t kBestDeflateRatio = 1032;

// A file of images, or of their labels.
class IdxFile {
 public:
  // Reads and checks the header only. Throws ConfigError, as read() does.
  IdxFile(std::string path, bool images) : path_(std::move(path)), images_(images) {
    FileBytes file(path_);
    count_ = read_header(file);
    check_size(file);
  }

  const std::string& path() const { return path_; }
  std::int64_t count() const { return static_cast<std::int64_t>(count_); }
  std::size_t header_bytes() const { return images_ ? 16 : 8; }

  // Fills `out`, which has room for all of the data, and checks that the file ends there.
  void read(std::span<std::uint8_t> out) const {
    FileBytes file(path_);
    if (read_header(file) != count_) disagree(path_, 4, "the count as before", "another one");
    const std::size_t n = file.read(out);
    if (n < out.size()) {
      disagree(path_, header_bytes() + n, fmt::format("{} bytes of data", out.size()),
               fmt::format("the end after {} (truncated)", n));
    }
    // Reading on past the data also makes zlib compare the checksum behind them.
    std::array<std::uint8_t, 1> more{};
    if (file.read(more) != 0) {
      disagree(path_, header_bytes() + n, "the end of the file", "more bytes");
    }
  }

 private:
  // Returns the number of images or labels.
  std::uint32_t read_header(FileBytes& file) const {
    std::array<std::uint8_t, 16> bytes{};
    const std::size_t n = file.read(std::span(bytes).first(header_bytes()));
    const auto number = [&](std::size_t at) {
      std::uint32_t value = 0;
      for (std::size_t i = at; i < at + 4; ++i) value = value << 8 | bytes[i];
      return value;
    };
    const std::uint32_t magic = kMagicOfBytes + (images_ ? 3 : 1);
    if (n >= 4 && number(0) != magic) {
      disagree(path_, 0,
               fmt::format("magic number {} (IDX {})", magic, images_ ? "images" : "labels"),
               fmt::format("{} (0x{:08x})", number(0), number(0)));
    }
    if (n < header_bytes()) {
      disagree(path_, n, fmt::format("a header of {} bytes", header_bytes()),
               "the end of the file (truncated)");
    }
    if (number(4) == 0) disagree(path_, 4, "a count of at least 1", "0");
    if (images_ && (number(8) != kSide || number(12) != kSide)) {
      disagree(path_, 8, fmt::format("images of {} x {}", kSide, kSide),
               fmt::format("{} x {}", number(8), number(12)));
    }
    return number(4);
  }

  // Checks what the size on disk alone can tell, so that no memory is made for absent data.
  void check_size(const FileBytes& file) const {
    const std::uint64_t promised =
        header_bytes() + std::uint64_t{count_} * (images_ ? kSide * kSide : 1);
    const std::uint64_t size = file.size_on_disk();
    if (file.is_gzip() ? promised / kBestDeflateRatio <= size : promised == size) return;
    const std::string expected = fmt::format("{} bytes for the {} {} that its header promises",
                                             promised, count_, images_ ? "images" : "labels");
    if (file.is_gzip()) {
      disagree(path_, 4, expected,
               fmt::format("a gzip file of {} bytes, too short for that", size));
    }
    disagree(path_, std::min(size, promised), expected,
             fmt::format("{}{}", size, size < promised ? " (truncated)" : ""));
  }

  std::string path_;
  bool images_;
  std::uint32_t count_ = 0;
};

// The files as found, in the order of the catalog; empty when none is there.
std::vector<std::string> find_files(const CatalogEntry& entry, const fs::path& directory) {
  std::vector<std::string> found, missing;
  for (const CatalogFile& file : entry.files) {
    const std::string plain = (directory / file.name).string(), packed = plain + ".gz";
    if (is_there(plain)) {
      found.push_back(plain);
    } else {
      (is_there(packed) ? found : missing).push_back(packed);
    }
  }
  if (found.empty() || missing.empty()) return found;
  throw ConfigError(
      fmt::format("data set {} is incomplete: {} missing (with or without .gz), while {} {} there; "
                  "`ddpbench data fetch {}` gets what is missing",
                  entry.name, fmt::join(missing, " and "), fmt::join(found, " and "),
                  found.size() == 1 ? "is" : "are", entry.name));
}

struct IdxSplit {
  IdxFile images, labels;

  IdxSplit(const std::string& images_path, const std::string& labels_path)
      : images(images_path, true), labels(labels_path, false) {
    if (labels.count() == images.count()) return;
    disagree(
        labels_path, 4,
        fmt::format("{} labels, as many as there are images in {}", images.count(), images_path),
        fmt::to_string(labels.count()));
  }

  // Labels are bytes in the file and wider in memory.
  void read(const SplitMemory& split, int classes) const {
    images.read(split.images);
    std::vector<std::uint8_t> bytes(split.labels.size());
    labels.read(bytes);
    std::ranges::copy(bytes, split.labels.begin());
    const auto bad =
        std::ranges::find_if(bytes, [&](std::uint8_t label) { return label >= classes; });
    if (bad == bytes.end()) return;
    disagree(labels.path(), labels.header_bytes() + static_cast<std::size_t>(bad - bytes.begin()),
             fmt::format("a label of 0 to {}", classes - 1), fmt::to_string(*bad),
             bad - bytes.begin());
  }
};

class IdxSource final : public DatasetSource {
 public:
  IdxSource(const CatalogEntry& entry, const std::string& directory,
            const std::vector<std::string>& paths)
      : train_(paths[0], paths[1]),
        test_(paths[2], paths[3]),
        info_(info_of_files(entry, directory)) {
    info_.train_samples = train_.images.count();
    info_.test_samples = test_.images.count();
  }

  const DatasetInfo& info() const override { return info_; }

  void decode(std::span<std::byte> out) override {
    const DecodedParts parts = decoded_parts(info_, out);
    train_.read(parts.train, info_.classes);
    test_.read(parts.test, info_.classes);
  }

 private:
  IdxSplit train_, test_;
  DatasetInfo info_;
};

}  // namespace

std::unique_ptr<DatasetSource> open_idx_dataset(const CatalogEntry& entry,
                                                const std::string& directory) {
  const fs::path place = fs::path(directory) / entry.name;
  const std::vector<std::string> paths = find_files(entry, place);
  if (paths.empty()) return nullptr;
  return std::make_unique<IdxSource>(entry, place.string(), paths);
}

}  // namespace ddpbench::data
