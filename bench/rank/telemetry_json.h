// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Telemetry of a GPU on its way from a rank to whoever writes the report (rank_result.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "reports/data/gpu_info.h"

namespace ddpbench::bench {

nlohmann::json telemetry_to_json(const Known<report::GpuTelemetry>& telemetry);
Known<report::GpuTelemetry> telemetry_from_json(const nlohmann::json& json);

}  // namespace ddpbench::bench
