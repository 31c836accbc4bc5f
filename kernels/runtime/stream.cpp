// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What streams do that cannot record.
#include "base/error.h"
#include "kernels/runtime/device.h"

namespace ddpbench {

void Stream::begin_recording() {
  throw InternalError(fmt::format("streams of {} cannot record their work", device().name()));
}

std::unique_ptr<Recording> Stream::end_recording() {
  throw InternalError(fmt::format("streams of {} cannot record their work", device().name()));
}

}  // namespace ddpbench
