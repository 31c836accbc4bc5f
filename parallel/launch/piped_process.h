// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// PipedProcess: a process that speaks in lines, which are read without waiting for it: a child by
// its standard streams, or one that has connected, by a socket.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "parallel/launch/child_process.h"

namespace ddpbench::launch {

// argv for /bin/sh that replaces itself by `command`, which the user wrote as for a shell, with
// `arguments` behind it. What these hold is never read as shell code.
std::vector<std::string> shell_arguments(const std::string& command,
                                         const std::vector<std::string>& arguments);

// For the login shell of a remote host (sh, csh, fish): runs the program with one plain word.
std::string remote_command(const std::string& program, std::string_view word);

// A stream as lines. One that has no end for too long is cut.
class LineReader {
 public:
  LineReader() = default;
  explicit LineReader(FileDescriptor file);  // which does not block any more

  // Reads what is there.
  void read();
  // The lines that have come since the last call, without their ends.
  std::vector<std::string> take() { return std::exchange(lines_, {}); }
  int fd() const { return file_.get(); }  // -1 at the end of the stream
  // Gives up what comes later; an unfinished line becomes one.
  void finish();

 private:
  FileDescriptor file_;
  std::string unfinished_;
  std::vector<std::string> lines_;
};

// A child ends with this object, as ChildProcess does; so it must be used on one thread.
class PipedProcess {
 public:
  // Its standard streams become pipes.
  struct Spec : ChildSpec {
    bool has_input = false;  // else its standard input is empty
  };
  // Throws UnavailableError where the program cannot be executed.
  explicit PipedProcess(const Spec& spec);
  // One that has connected.
  explicit PipedProcess(FileDescriptor socket);

  // Writes to it. Returns false when it reads no more: it has ended, or takes nothing for
  // kSilence_s.
  bool write(std::string_view text);
  // Nothing more is written.
  void close_input();

  // Adds what to wait for until look() can see something.
  void watch(std::vector<pollfd>& all) const;
  // Reads what the process has written, and whether it has ended. Returns true, once, when it has
  // ended and all that it wrote was read.
  bool look();
  std::vector<std::string> take_output() { return output_.take(); }
  std::vector<std::string> take_errors() { return errors_.take(); }  // a child's

  // These speak of a child. Nothing is known of another process.
  bool alive() const { return process_ && process_->alive(); }
  bool is_stopped() const { return process_ && process_->is_stopped(); }
  void signal(int number) const {
    if (process_) process_->signal(number);
  }
  ChildExit how_ended();

 private:
  FileDescriptor input_;  // a socket, so that writing to it raises no SIGPIPE
  LineReader output_, errors_;
  std::optional<ChildProcess> process_;  // nothing: it is no child
  bool told_ = false;
};

}  // namespace ddpbench::launch
