// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace ddpbench::bench {

int terminal_width() {
  winsize size{};
  const bool known = ::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return known ? size.ws_col : 0;
}

void put(std::FILE* file, const std::string& text) noexcept {
  std::fwrite(text.data(), 1, text.size(), file);
}

void finish_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw ConfigError(fmt::format("cannot write to standard output{}{}", errno != 0 ? ": " : "",
                                errno != 0 ? std::strerror(errno) : ""));
}

}  // namespace ddpbench::bench
