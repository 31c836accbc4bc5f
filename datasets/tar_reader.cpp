// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A header of 512 bytes precedes each file, whose contents are filled up to the next multiple of
// 512. Two blocks of zeros end the archive. Numbers are octal text. The header's checksum is the
// sum of its bytes, with blanks in place of the checksum itself.
#include "datasets/tar_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "base/math.h"

namespace ddpbench::data {
namespace {

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

}  // namespace

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

}  // namespace ddpbench::data
