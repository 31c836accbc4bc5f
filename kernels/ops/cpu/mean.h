// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Mean of buffers for CPU devices.
#pragma once

#include <memory>

#include "kernels/ops/cpu/elementwise.h"
#include "kernels/ops/mean.h"

namespace ddpbench::ops::cpu {

std::unique_ptr<Mean> make_mean(Team team);

}  // namespace ddpbench::ops::cpu
