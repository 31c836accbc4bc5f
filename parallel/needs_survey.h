// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a strategy will allocate on the devices of a job, found on one device and without peers: the
// strategy's own setup runs up to the point at which all needs are known, and no further.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/nn/model/model.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/strategy.h"

namespace ddpbench {

// Devices of a job that need the same memory.
struct AlikeDevices {
  int rank = 0;            // that has the first of them
  std::size_t device = 0;  // its index among the rank's devices
  int count = 1;
  Role role = Role::worker;
};

// A device to plan on, and its operations.
struct SurveyPlace {
  Device& device;
  ops::OpBackend& backend;
};

// Calls `told` with the needs of each kind of device: the first device of the first rank (pipeline:
// of each stage), the others of that rank (dp), and a server. REQUIRES: plan_strategy accepts
// `config`, and the places have nothing allocated; nothing stays allocated there. Throws what setup
// throws.
void survey_needs(const StrategyConfig& config, const nn::ModelSpec& model,
                  const SurveyPlace& workers, const SurveyPlace& servers,
                  const std::function<void(const AlikeDevices&, MemoryNeeds&)>& told);

}  // namespace ddpbench
