// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Offsets in messages are those of the unpacked contents, except where gzip itself is damaged.
#include "datasets/idx_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "datasets/file_bytes.h"

namespace ddpbench::data {
namespace {

constexpr std::uint32_t kMagicOfBytes = 0x0800;
// Sides of images beyond this are damage. Keeps count * height * width below 2^56.
constexpr std::int64_t kLargestSide = 4096;
// Deflate cannot pack better: 258 bytes in at least 2 bits (zlib, "Maximum compression factor").
constexpr std::uint64_t kBestDeflateRatio = 1032;

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

// What the size on disk alone can tell, so that nobody makes room for what cannot be there.
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

}  // namespace

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
  // Reading on past the data also makes zlib compare the checksum behind it.
  std::array<std::uint8_t, 1> more{};
  if (file.read(more) != 0) {
    disagree(path_, header + payload, "the end of the file", "more bytes");
  }
}

void check_labels(const std::string& path, std::span<const std::uint8_t> labels, int classes) {
  const auto bad =
      std::ranges::find_if(labels, [&](std::uint8_t label) { return label >= classes; });
  if (bad == labels.end()) return;
  disagree(path, header_bytes(IdxKind::labels) + static_cast<std::size_t>(bad - labels.begin()),
           fmt::format("a label of 0 to {}", classes - 1), fmt::to_string(*bad));
}

}  // namespace ddpbench::data
