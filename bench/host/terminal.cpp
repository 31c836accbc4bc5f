// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace ddpbench::bench {

int terminal_width() {
  winsize size{};
  const bool known = ::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return known ? size.ws_col : 0;
}

void put(std::FILE* file, const std::string& text) noexcept {
  std::fwrite(text.data(), 1, text.size(), file);
}

std::string cut_to_columns(const std::string& text, std::size_t columns) {
  if (columns == 0 || display_width(text) <= columns) return text;
  std::size_t bytes = text.size();
  std::string_view kept = text;
  while (display_width(kept) + 1 > columns && bytes > 0) kept = cut_at_character(text, --bytes);
  return std::string(kept) + "\u2026";
}

void StatusLine::draw(const std::string& text) {
  // The last column stays free, because some terminals go to the next line after it.
  const auto columns = static_cast<std::size_t>(std::max(terminal_width() - 1, 0));
  const std::string line = cut_to_columns(printable(text), columns);
  const std::size_t width = display_width(line);
  const std::size_t before = columns > 0 ? std::min(drawn_, columns) : drawn_;
  say("\r{}{:{}}", line, "", before > width ? before - width : 0);
  drawn_ = width;
  std::fflush(stdout);
}

void StatusLine::clear() {
  draw("");
  say("\r");
  std::fflush(stdout);
}

void finish_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw ConfigError(fmt::format("cannot write to standard output{}{}", errno != 0 ? ": " : "",
                                errno != 0 ? std::strerror(errno) : ""));
}

}  // namespace ddpbench::bench
