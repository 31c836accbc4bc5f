// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/rsvg_convert.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/file.h"

namespace ddpbench::bench {
namespace {

constexpr std::chrono::milliseconds kLookAgain{2};

// Returns a file without a name, in memory. The program reads and writes such files at its own
// pace, so that nothing has to be copied while it runs.
FileDescriptor unnamed_file() {
  FileDescriptor file(::memfd_create("picture", MFD_CLOEXEC));
  ensure(static_cast<bool>(file), "no file for rsvg-convert: {}", std::strerror(errno));
  return file;
}

FileDescriptor file_of(std::string_view text) {
  FileDescriptor file = unnamed_file();
  while (!text.empty()) {
    const ssize_t count = ::write(file.get(), text.data(), text.size());
    ensure(count > 0 || errno == EINTR, "no file for rsvg-convert: {}", std::strerror(errno));
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string text_of(const FileDescriptor& file) {
  std::string text;
  std::array<char, 65536> block;
  for (ssize_t count = 0; (count = ::pread(file.get(), block.data(), block.size(),
                                           static_cast<off_t>(text.size()))) > 0;) {
    text.append(block.data(), static_cast<std::size_t>(count));
  }
  return text;
}

// Starts rsvg-convert on construction; on destruction ends it if it still runs.
class Converter {
 public:
  Converter(PictureFormat format, const FileDescriptor& input, const FileDescriptor& output,
            const FileDescriptor& errors) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, errors.get(), STDERR_FILENO);
    const char* words_of_format = format == PictureFormat::pdf ? "--format=pdf" : "--format=png";
    std::array<std::string, 3> words = {
        "rsvg-convert", words_of_format,
        format == PictureFormat::fine_png ? "--zoom=2" : "--zoom=1"};
    std::array<char*, 4> argv = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    const int code =
        ::posix_spawnp(&pid_, words[0].c_str(), &actions, nullptr, argv.data(), ::environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (code == 0) return;
    pid_ = -1;
    throw UnavailableError(
        fmt::format("PNG and PDF need rsvg-convert, which cannot be started: {}; install it "
                    "(Debian: apt install librsvg2-bin), or write an .svg, which needs nothing",
                    std::strerror(code)));
  }
  ~Converter() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  // Returns its exit status, as waitpid gives it; nothing when the deadline passed.
  std::optional<int> wait(std::chrono::steady_clock::time_point deadline) {
    int status = 0;
    for (;;) {
      const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
      ensure(ended >= 0 || errno == EINTR, "waiting for rsvg-convert: {}", std::strerror(errno));
      if (ended > 0) {
        pid_ = -1;
        return status;
      }
      if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
      std::this_thread::sleep_for(kLookAgain);
    }
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace

std::string rsvg_convert(std::string_view svg, PictureFormat format,
                         std::chrono::milliseconds deadline) {
  const FileDescriptor input = file_of(svg), output = unnamed_file(), errors = unnamed_file();
  Converter converter(format, input, output, errors);
  const auto status = converter.wait(std::chrono::steady_clock::now() + deadline);
  if (!status) {
    throw InternalError(fmt::format("rsvg-convert was not done after {} ms and was ended; {}",
                                    deadline.count(), text_of(errors)));
  }
  std::string picture = text_of(output);
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0 && !picture.empty()) return picture;
  const std::string how = WIFEXITED(*status) ? fmt::format("exit code {}", WEXITSTATUS(*status))
                                             : fmt::format("signal {}", WTERMSIG(*status));
  throw InternalError(fmt::format("rsvg-convert drew no picture ({}): {}", how, text_of(errors)));
}

}  // namespace ddpbench::bench
