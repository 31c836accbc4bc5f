// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A communicator of a CUDA device for checks that know only host memory. Every call copies its
// operands to the device, and its results back when the caller waits. Registered buffers get a
// registered shadow on the device.
#pragma once

#include <memory>

#include "kernels/runtime/device.h"
#include "parallel/comm/communicator.h"

namespace ddpbench::comm::testing {

// `inner` and `device` outlive it.
std::unique_ptr<Communicator> make_host_communicator(Communicator& inner, Device& device);

}  // namespace ddpbench::comm::testing
