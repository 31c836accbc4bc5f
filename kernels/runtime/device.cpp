// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/device.h"

#include "base/error.h"

namespace ddpbench {

std::string_view to_string(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda";
  }
  return "unknown";
}

// The defaults for streams that cannot record.

void Stream::begin_recording() {
  throw InternalError(fmt::format("streams of {} cannot record their work", device().name()));
}

std::unique_ptr<Recording> Stream::end_recording() {
  throw InternalError(fmt::format("streams of {} cannot record their work", device().name()));
}

}  // namespace ddpbench
