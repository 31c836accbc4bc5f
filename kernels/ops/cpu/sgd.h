// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// SGD for CPU devices.
#pragma once

#include <memory>

#include "kernels/ops/cpu/elementwise.h"
#include "kernels/ops/sgd.h"

namespace ddpbench::ops::cpu {

std::unique_ptr<Sgd> make_sgd(Team team);

}  // namespace ddpbench::ops::cpu
