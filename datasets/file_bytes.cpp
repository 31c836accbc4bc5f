// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads gzip through a buffer of 64 KiB, and other files straight into the caller's memory.
#include "datasets/file_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <new>

#include "base/error.h"
#include "base/file.h"

namespace ddpbench::data {
namespace {

constexpr std::size_t kBufferBytes = 64 * 1024;
constexpr std::array<std::uint8_t, 2> kGzipMagic = {0x1f, 0x8b};  // RFC 1952 section 2.3.1
constexpr int kGzipOnly = 16 + MAX_WBITS;                         // zlib.h, inflateInit2

}  // namespace

bool is_there(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path, error);
  if (status.type() == std::filesystem::file_type::none) {
    throw ConfigError(fmt::format("cannot look for {}: {}", path, error.message()));
  }
  return status.type() != std::filesystem::file_type::not_found;
}

struct FileBytes::Impl {
  explicit Impl(const std::string& where) : path(where) {}
  ~Impl() {
    if (gzip) inflateEnd(&stream);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[noreturn]] void fail(const char* what) const {
    const int error = errno;
    throw ConfigError(fmt::format("{}: cannot {}: {}", path, what, std::strerror(error)));
  }

  [[noreturn]] void damaged(std::string_view expected, std::string_view found) const {
    throw ConfigError(fmt::format("{}: offset {} of the gzip file: expected {}, found: {}", path,
                                  bytes_read - stream.avail_in, expected, found));
  }

  // Works as read(2), but until `out` is full or the file ends.
  std::size_t read_file(std::span<std::uint8_t> out) {
    std::size_t filled = 0;
    while (filled < out.size()) {
      const ssize_t n = ::read(file.get(), out.data() + filled, out.size() - filled);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("read");
      if (n == 0) break;
      filled += static_cast<std::size_t>(n);
    }
    bytes_read += filled;
    return filled;
  }

  // False at the end of the file.
  bool refill() {
    const std::size_t n = read_file(buffer);
    stream.next_in = buffer.data();
    stream.avail_in = static_cast<uInt>(n);
    return n > 0;
  }

  std::size_t unpack(std::span<std::uint8_t> out);

  std::string path;
  FileDescriptor file;
  std::uint64_t size_on_disk = 0;
  std::uint64_t bytes_read = 0;
  bool gzip = false;
  bool member_ended = false;  // a gzip file is a sequence of members; ours have one
  z_stream stream{};
  std::array<std::uint8_t, kBufferBytes> buffer{};
};

std::size_t FileBytes::Impl::unpack(std::span<std::uint8_t> out) {
  constexpr std::size_t kMostAtOnce = std::numeric_limits<uInt>::max();
  std::size_t filled = 0;
  while (filled < out.size()) {
    if (stream.avail_in == 0 && !refill()) {
      if (member_ended) break;
      damaged("more of the gzip stream", "the end of the file (truncated)");
    }
    if (member_ended) inflateReset(&stream);
    member_ended = false;
    const auto room = static_cast<uInt>(std::min(out.size() - filled, kMostAtOnce));
    stream.next_out = out.data() + filled;
    stream.avail_out = room;
    const int status = inflate(&stream, Z_NO_FLUSH);
    filled += room - stream.avail_out;
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK && status != Z_STREAM_END) {
      damaged("a valid gzip stream", stream.msg != nullptr ? stream.msg : "damaged data");
    }
    member_ended = status == Z_STREAM_END;
  }
  return filled;
}

FileBytes::FileBytes(const std::string& path) : impl_(std::make_unique<Impl>(path)) {
  // Without O_NONBLOCK, opening a pipe waits for its writer.
  impl_->file = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!impl_->file) impl_->fail("open");
  struct stat status {};
  if (fstat(impl_->file.get(), &status) != 0) impl_->fail("stat");
  if (!S_ISREG(status.st_mode)) {
    throw ConfigError(fmt::format("{}: expected a regular file, found something else", path));
  }
  impl_->size_on_disk = static_cast<std::uint64_t>(status.st_size);

  std::array<std::uint8_t, 2> magic{};
  const bool gzip = impl_->read_file(magic) == magic.size() && magic == kGzipMagic;
  if (lseek(impl_->file.get(), 0, SEEK_SET) != 0) impl_->fail("seek in");
  impl_->bytes_read = 0;
  if (gzip) {
    if (inflateInit2(&impl_->stream, kGzipOnly) != Z_OK) throw std::bad_alloc();
    impl_->gzip = true;
  }
}

FileBytes::~FileBytes() = default;

bool FileBytes::is_gzip() const { return impl_->gzip; }

std::uint64_t FileBytes::size_on_disk() const { return impl_->size_on_disk; }

std::size_t FileBytes::read(std::span<std::uint8_t> out) {
  return impl_->gzip ? impl_->unpack(out) : impl_->read_file(out);
}

}  // namespace ddpbench::data
