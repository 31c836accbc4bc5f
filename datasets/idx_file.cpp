// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A file holds two zeros, the type of its elements, the number of its dimensions, these as
// big-endian 32-bit numbers, then the data, row by row. Offsets in messages are those of the
// unpacked contents.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "datasets/readers.h"

namespace ddpbench::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint8_t kBytes = 0x08, kIntegers = 0x0c;  // types of elements
constexpr std::size_t kLabelColumns = 8;                 // of integers; the first is the label
constexpr std::uint32_t kSide = 28;                      // pixels
// Deflate cannot pack better: 258 bytes in at least 2 bits (zlib, "Maximum compression factor").
constexpr std::uint64_t kBestDeflateRatio = 1032;

// What the file at `path` holds, which begins so.
std::string words_of(const std::string& path, std::span<const std::uint8_t> begin) {
  constexpr std::array<std::string_view, 7> kTypes = {
      "unsigned bytes",  "signed bytes",  "other numbers", "16-bit integers",
      "32-bit integers", "32-bit floats", "64-bit floats"};
  const auto type = static_cast<std::size_t>(begin[2]) - kBytes;
  if (begin[0] == 0 && begin[1] == 0 && type < kTypes.size()) {
    return fmt::format("IDX of {} of {}", counted(int{begin[3]}, "dimension"), kTypes[type]);
  }
  const std::string foreign = foreign_words(path);
  return foreign.empty() ? "no IDX file" : foreign;
}

// A file of images, or of their labels.
class IdxFile {
 public:
  // Reads and checks the header only. Throws ConfigError, as read() does.
  IdxFile(std::string path, bool images) : path_(std::move(path)), images_(images) {
    FileBytes file(path_);
    read_header(file);
    check_size(file);
  }

  std::int64_t count() const { return static_cast<std::int64_t>(count_); }
  std::size_t item_bytes() const { return item_bytes_; }  // of an image or of a label

  // Fills `out`, which has room for all of the data, and checks that the file ends there.
  void read(std::span<std::uint8_t> out) {
    FileBytes file(path_);
    const std::uint32_t before = count_;
    read_header(file);
    if (count_ != before) disagree(path_, 4, "the count as before", "another one");
    const std::size_t n = file.read(out);
    if (n < out.size()) {
      disagree(path_, header_bytes_ + n, fmt::format("{} bytes of data", out.size()),
               fmt::format("the end after {} (truncated)", n));
    }
    // Reading on past the data also makes zlib compare the checksum behind them.
    std::array<std::uint8_t, 1> more{};
    if (file.read(more) != 0) {
      disagree(path_, header_bytes_ + n, "the end of the file", "more bytes");
    }
  }

 private:
  void read_header(FileBytes& file) {
    std::array<std::uint8_t, 16> bytes{};
    std::size_t n = file.read(std::span(bytes).first(4));
    const auto number = [&](std::size_t at) {
      std::uint32_t value = 0;
      for (std::size_t i = at; i < at + 4; ++i) value = value << 8 | bytes[i];
      return value;
    };
    const bool integers = !images_ && number(0) == (kIntegers << 8) + 2;
    if (n == 4 && !integers && number(0) != (kBytes << 8) + (images_ ? 3 : 1)) {
      disagree(path_, 0,
               images_ ? "IDX images (3 dimensions of unsigned bytes)"
                       : "IDX labels (1 dimension of unsigned bytes)",
               words_of(path_, bytes));
    }
    header_bytes_ = images_ ? 16 : integers ? 12 : 8;
    item_bytes_ = images_ ? kSide * kSide : integers ? kLabelColumns * 4 : 1;
    n += file.read(std::span(bytes).subspan(4, header_bytes_ - 4));
    if (n < header_bytes_) {
      disagree(path_, n, fmt::format("a header of {} bytes", header_bytes_),
               "the end of the file (truncated)");
    }
    if (number(4) == 0) disagree(path_, 4, "a count of at least 1", "0");
    if (images_ && (number(8) != kSide || number(12) != kSide)) {
      disagree(path_, 8, fmt::format("images of {} x {}", kSide, kSide),
               fmt::format("{} x {}", number(8), number(12)));
    }
    count_ = number(4);
  }

  // Checks what the size on disk alone can tell, so that no memory is made for absent data.
  void check_size(const FileBytes& file) const {
    const std::uint64_t promised = header_bytes_ + std::uint64_t{count_} * item_bytes();
    const std::uint64_t size = file.size_on_disk();
    if (file.is_gzip() ? promised / kBestDeflateRatio <= size : promised == size) return;
    disagree(path_, 4,
             fmt::format("{} bytes for the {} {} that its header promises", promised, count_,
                         images_ ? "images" : "labels"),
             fmt::format("{}{}{}", size, file.is_gzip() ? " in gzip" : "",
                         size < promised ? " (truncated)" : ""));
  }

  std::string path_;
  bool images_;
  std::uint32_t count_ = 0;
  std::size_t header_bytes_ = 0, item_bytes_ = 0;
};

// The files as found, in the order of the catalog; empty when none is there.
std::vector<std::string> find_files(const CatalogEntry& entry, const fs::path& directory) {
  std::vector<std::string> found, missing;
  for (const CatalogFile& file : entry.files) {
    std::string best;
    for (const std::string& form : forms_of(file.name)) {
      const std::string path = (directory / form).string();
      // Some archives have folders of these names beside the files.
      if (is_there(path) && (best.empty() || (is_file(path) && !is_file(best)))) best = path;
    }
    if (best.empty()) missing.push_back((directory / file.name).string());
    if (!best.empty()) found.push_back(best);
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

  // Labels are bytes in the file and wider in memory, or integers whose last byte is the label.
  void read(const SplitMemory& split) {
    images.read(split.images);
    const std::size_t item = labels.item_bytes();
    std::vector<std::uint8_t> bytes(split.labels.size() * item);
    labels.read(bytes);
    for (std::size_t i = 0; i < split.labels.size(); ++i) {
      split.labels[i] = bytes[i * item + (item == 1 ? 0 : 3)];
    }
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
    train_.read(parts.train);
    test_.read(parts.test);
  }

 private:
  IdxSplit train_, test_;
  DatasetInfo info_;
};

}  // namespace

std::unique_ptr<DatasetSource> open_idx_dataset(const CatalogEntry& entry,
                                                const std::string& directory) {
  for (const fs::path& place : places_of(entry, directory)) {
    const std::vector<std::string> paths = find_files(entry, place);
    if (!paths.empty()) return std::make_unique<IdxSource>(entry, place.string(), paths);
  }
  return nullptr;
}

}  // namespace ddpbench::data
