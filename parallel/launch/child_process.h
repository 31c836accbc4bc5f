// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Child: one process of a run, as its supervisor sees it. ChildProcess: one that this process
// starts, watches, signals and reaps itself.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace ddpbench::launch {

struct RunFailure;  // rank_records.h

// Whether there is such a process, and it is held, by SIGSTOP or a debugger.
bool is_process_stopped(pid_t pid);

struct ChildSpec {
  std::string executable;
  std::vector<std::string> arguments;    // argv, the name included
  std::vector<std::string> environment;  // "NAME=value", complete
  std::vector<int> inherited_fds;        // stay open under their numbers, besides 0, 1 and 2
  int input_fd = -1;                     // becomes its stdin; -1: it has nothing to read
  int output_fd = 2;                     // becomes its stdout, and its stderr unless error_fd does
  int error_fd = -1;
  int death_signal = SIGKILL;  // that it gets when the thread which started it ends
};

// How a child ended.
struct ChildExit {
  int code = 0;          // when signal is 0
  int signal = 0;        // signal that killed it
  bool is_known = true;  // false: it is only known that it has ended; code and signal are 0
};

// A process of a run: a child of the supervisor's own, or one on another host that its agent there
// has started.
class Child {
 public:
  virtual ~Child() = default;

  virtual bool alive() const noexcept = 0;
  // Adds what to wait for until there may be something new to see of it.
  virtual void watch(std::vector<pollfd>& all) const = 0;
  // Looks whether it has ended; with `block`, waits for its end. What its ranks have written is
  // complete once it has.
  virtual const std::optional<ChildExit>& reap(bool block = false) = 0;
  virtual void signal(int number) const noexcept = 0;
  virtual bool is_stopped() const = 0;  // by SIGSTOP or a debugger

  // Its host's name; empty: that of its supervisor, or the only one of the run.
  virtual std::string host() const { return {}; }
  // The rank that people know it by, of the child at `place` among those of its supervisor.
  virtual int rank(int place) const { return place; }
  // Why it cannot be reached any more; empty: it can.
  virtual std::string lost() const { return {}; }
  // How far its host's monotonic clock is ahead of that of this host.
  virtual double clock_ahead_s() const { return 0; }
  // Adds what else is known of the end of the run by its failure.
  virtual void explain(RunFailure&) const {}
};

// Owns a child: one that is still alive when this object is destroyed is killed and reaped. Must be
// used on the thread that started it, because the kernel ends the child with that thread.
class ChildProcess final : public Child {
 public:
  // Starts the executable. Whether it could be executed is known only after confirm().
  explicit ChildProcess(const ChildSpec& spec);
  ~ChildProcess() override;

  // Waits until the program runs, for at most so many milliseconds: that of a process that was
  // stopped, or whose file system hangs, does not. Throws UnavailableError, naming the executable,
  // when it cannot.
  void confirm(int milliseconds);

  bool alive() const noexcept override { return pid_ > 0 && !exit_; }
  void watch(std::vector<pollfd>& all) const override {
    if (alive()) all.push_back({watch_fd(), POLLIN, 0});
  }
  // Becomes readable when the child has ended; -1 on kernels without pidfd_open.
  int watch_fd() const noexcept { return watch_.get(); }
  const std::optional<ChildExit>& reap(bool block = false) override;
  void signal(int number) const noexcept override;
  bool is_stopped() const override { return alive() && is_process_stopped(pid_); }

 private:
  std::string executable_;
  pid_t pid_ = -1;
  FileDescriptor watch_;
  FileDescriptor confirm_;  // delivers errno when exec fails, is closed when it succeeds
  std::optional<ChildExit> exit_;
};

}  // namespace ddpbench::launch
