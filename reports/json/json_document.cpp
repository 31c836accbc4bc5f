// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/json_document.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "reports/json/json_limits.h"
#include "reports/json/json_refusal.h"

namespace ddpbench::report {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::size_t count_marks(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) {
    const int folded = c | 0x20;  // makes { of [ and } of ]
    count += static_cast<std::size_t>((c == ',') | (c == ':') | (folded == '{') | (folded == '}'));
  }
  return count;
}

[[noreturn]] void refuse_size(const std::string& name) {
  throw ConfigError(
      fmt::format("report {}: larger than {} MiB; a report of 10 million step samples has 220 MB, "
                  "this is none",
                  name, kLargestReport / kMebibyteBytes));
}

// simdjson's memory follows from these two.
void check_size(const std::string& text, const std::string& name) {
  if (text.size() > kLargestReport) refuse_size(name);
  if (count_marks(text) > kMostMarks) {
    throw ConfigError(fmt::format(
        "report {}: more than {} million values; a report of 10 million step samples is read, this "
        "is none",
        name, kMostMarks / 1'000'000));
  }
}

[[noreturn]] void fail_read(const std::string& path, int code) {
  if (code == ENOENT) throw ConfigError(fmt::format("report {}: no such file", path));
  throw ConfigError(
      fmt::format("report {}: cannot be read: {}", path, std::generic_category().message(code)));
}

class OpenFile {
 public:
  // Without O_NONBLOCK opening a pipe waits for its writer.
  explicit OpenFile(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    if (fd_ < 0) fail_read(path_, errno);
  }
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // What the file says of its size; it may be another by the time it is read.
  std::size_t regular_size() const {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) fail_read(path_, errno);
    if (!S_ISREG(info.st_mode)) {
      throw ConfigError(fmt::format("report {}: not a regular file", path_));
    }
    return static_cast<std::size_t>(info.st_size);
  }

  // 0 at the end.
  std::size_t read(char* to, std::size_t most) const {
    ssize_t count = 0;
    do {
      count = ::read(fd_, to, most);
    } while (count < 0 && errno == EINTR);
    if (count < 0) fail_read(path_, errno);
    return static_cast<std::size_t>(count);
  }

 private:
  const std::string& path_;
  int fd_;
};

}  // namespace

JsonDocument::JsonDocument(const std::string& text, const std::string& name) : name_(name) {
  check_size(text, name);
  const std::size_t skipped = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  simdjson::dom::parser parser;
  simdjson::error_code code = parser.allocate(text.size(), kDeepest);
  if (code == simdjson::SUCCESS) {
    const bool copy = text.capacity() - text.size() < kJsonPadding;
    code = parser.parse_into_document(document_, text.data() + skipped, text.size() - skipped, copy)
               .error();
  }
  if (code == simdjson::MEMALLOC) {
    throw ConfigError(
        fmt::format("report {}: not enough memory to read its {} bytes", name, text.size()));
  }
  if (code != simdjson::SUCCESS) refuse_json(text, name, simdjson::error_message(code));
}

std::string read_report_text(const std::string& path) {
  constexpr std::size_t kLeast = 4096;
  const OpenFile file(path);
  const std::size_t expected = file.regular_size();
  if (expected > kLargestReport) refuse_size(path);
  std::string text;
  text.reserve(expected + kLeast + kJsonPadding);
  for (std::size_t size = 0;;) {
    // One byte more than expected, to see the end without growing.
    text.resize(std::max(expected + 1, size + kLeast));
    const std::size_t count = file.read(text.data() + size, text.size() - size);
    size += count;
    if (count == 0) {
      text.resize(size);
      return text;
    }
    if (size > kLargestReport) refuse_size(path);
  }
}

}  // namespace ddpbench::report
