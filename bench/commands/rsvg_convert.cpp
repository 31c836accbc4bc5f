// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/subcommand.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

// A file without a name, in memory. The program reads and writes such files at its own pace, so
// that nothing has to be copied while it runs.
FileDescriptor file_of(std::string_view text) {
  FileDescriptor file(::memfd_create("picture", MFD_CLOEXEC));
  const int code = file ? write_all(file, std::as_bytes(std::span(text))) : errno;
  ensure(code == 0, "no file for another program: {}", std::strerror(code));
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string text_of(const FileDescriptor& file) {
  std::string text(static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_END)), '\0');
  return ::pread(file.get(), text.data(), text.size(), 0) < 0 ? "" : text;
}

}  // namespace

std::string rsvg_convert(std::string_view svg, const std::string& format, int zoom) {
  const FileDescriptor streams[] = {file_of(svg), file_of(""), file_of("")};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (int i = 0; i < 3; ++i) ::posix_spawn_file_actions_adddup2(&actions, streams[i].get(), i);
  std::string words[] = {"rsvg-convert", "--format=" + format, fmt::format("--zoom={}", zoom)};
  char* const argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t pid = -1;
  const int code = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv, ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (code != 0) {
    throw UnavailableError(
        fmt::format("PNG and PDF need rsvg-convert, which cannot be started: {}; install it "
                    "(Debian: apt install librsvg2-bin), or write an .svg, which needs nothing",
                    std::strerror(code)));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  std::string picture = text_of(streams[1]);
  if (status == 0 && !picture.empty()) return picture;
  throw InternalError(fmt::format(
      "rsvg-convert drew no picture ({} {}): {}", WIFEXITED(status) ? "exit code" : "signal",
      WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), text_of(streams[2])));
}

}  // namespace ddpbench::bench
