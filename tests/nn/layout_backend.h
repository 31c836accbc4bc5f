// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The reference backend with peculiarities of real ones, so that the tests of planning meet them
// everywhere.
#pragma once

#include <memory>

#include "kernels/ops/backend.h"

namespace ddpbench::nn {

// Convolutions and pools read and write samples back to front ("reversed"), linear layers are
// plain, additions and relus take any layout. So there is a reorder at each border.
std::unique_ptr<ops::OpBackend> odd_layouts(Device& device);

// Additions couple samples, so they may not run in micro-batches.
std::unique_ptr<ops::OpBackend> coupled_adds(Device& device);

}  // namespace ddpbench::nn
