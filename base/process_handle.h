// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A handle of a process: a pidfd, which stands for the same process even when its number is used
// again.
#pragma once

#include <poll.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/file.h"

namespace ddpbench {

// Empty with errno = ESRCH where there is no such process, and with another errno on kernels
// without pidfds. The descriptor is close-on-exec.
inline FileDescriptor open_process(pid_t pid) noexcept {
  // Not through glibc: the header of 2.36 lacks the C linkage.
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

// Whether the process has ended; false for an empty handle. A zombie has ended.
inline bool has_ended(const FileDescriptor& process) noexcept {
  pollfd polled{process.get(), POLLIN, 0};
  return process && ::poll(&polled, 1, 0) > 0;
}

}  // namespace ddpbench
