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
#include <span>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace ddpbench::bench {
namespace {

constexpr std::chrono::milliseconds kLookAgain{2};

// Returns a file without a name, in memory. The program reads and writes such files at its own
// pace, so that nothing has to be copied while it runs.
FileDescriptor unnamed_file() {
  FileDescriptor file(::memfd_create("filter", MFD_CLOEXEC));
  ensure(static_cast<bool>(file), "no file for another program: {}", std::strerror(errno));
  return file;
}

FileDescriptor file_of(std::string_view text) {
  FileDescriptor file = unnamed_file();
  const int code = write_all(file, std::as_bytes(std::span(text)));
  ensure(code == 0, "no file for another program: {}", std::strerror(code));
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

// A program that still runs when this object is destroyed is ended.
class Filter {
 public:
  // start_error() says whether it was started.
  Filter(std::vector<std::string>& words, const FileDescriptor& input, const FileDescriptor& output,
         const FileDescriptor& errors) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, errors.get(), STDERR_FILENO);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    start_error_ =
        ::posix_spawnp(&pid_, words[0].c_str(), &actions, nullptr, argv.data(), ::environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (start_error_ != 0) pid_ = -1;
  }
  ~Filter() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  int start_error() const { return start_error_; }

  // Returns its exit status, as waitpid gives it; nothing when the deadline passed.
  std::optional<int> wait(std::chrono::steady_clock::time_point deadline) {
    int status = 0;
    for (;;) {
      const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
      ensure(ended >= 0 || errno == EINTR, "waiting for another program: {}", std::strerror(errno));
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
  int start_error_ = 0;
};

struct FilterEnd {
  int start_error = 0;        // errno with which it could not be started; 0: it was
  std::optional<int> status;  // as waitpid gives it; null: it was ended at the deadline
  std::string output, errors;

  bool succeeded() const { return start_error == 0 && status == 0; }
};

// Starts `words[0]`, found on PATH, with `input` as its standard input, and waits until it has
// ended. Throws InternalError where the system has no memory for its files.
FilterEnd run_program(std::vector<std::string> words, std::string_view input,
                      std::chrono::milliseconds deadline) {
  const FileDescriptor file = file_of(input), output = unnamed_file(), errors = unnamed_file();
  Filter filter(words, file, output, errors);
  FilterEnd end;
  end.start_error = filter.start_error();
  if (end.start_error != 0) return end;
  end.status = filter.wait(std::chrono::steady_clock::now() + deadline);
  end.output = text_of(output);
  end.errors = text_of(errors);
  return end;
}

}  // namespace

std::string rsvg_convert(std::string_view svg, PictureFormat format,
                         std::chrono::milliseconds deadline) {
  FilterEnd end =
      run_program({"rsvg-convert", format == PictureFormat::pdf ? "--format=pdf" : "--format=png",
                   format == PictureFormat::fine_png ? "--zoom=2" : "--zoom=1"},
                  svg, deadline);
  if (end.start_error != 0) {
    throw UnavailableError(
        fmt::format("PNG and PDF need rsvg-convert, which cannot be started: {}; install it "
                    "(Debian: apt install librsvg2-bin), or write an .svg, which needs nothing",
                    std::strerror(end.start_error)));
  }
  if (!end.status) {
    throw InternalError(fmt::format("rsvg-convert was not done after {} ms and was ended; {}",
                                    deadline.count(), end.errors));
  }
  if (end.succeeded() && !end.output.empty()) return std::move(end.output);
  const std::string how = WIFEXITED(*end.status)
                              ? fmt::format("exit code {}", WEXITSTATUS(*end.status))
                              : fmt::format("signal {}", WTERMSIG(*end.status));
  throw InternalError(fmt::format("rsvg-convert drew no picture ({}): {}", how, end.errors));
}

}  // namespace ddpbench::bench
