// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs and what they did, written (gpu_json.cpp) and read (gpu_reader.cpp). Private to reports/.
#pragma once

#include "reports/json/json_cursor.h"
#include "reports/json/json_fields.h"

namespace ddpbench::report {

struct TelemetryFigure {
  const char* key;
  Known<SampleRange> GpuTelemetry::*spread;
};
inline constexpr std::array<TelemetryFigure, 5> kTelemetryFigures = {{
    {"utilization_ratio", &GpuTelemetry::utilization_ratio},
    {"sm_clock_mhz", &GpuTelemetry::sm_clock_mhz},
    {"memory_clock_mhz", &GpuTelemetry::memory_clock_mhz},
    {"power_w", &GpuTelemetry::power_w},
    {"temperature_celsius", &GpuTelemetry::temperature_celsius},
}};

Json gpu_json(const GpuInfo& gpu);
GpuInfo read_gpu(const JsonCursor& value);

// "gpu_telemetry" of a device.
void put_telemetry(Json& device, const Known<GpuTelemetry>& telemetry);
// Reports from before the key have none.
Known<GpuTelemetry> read_telemetry(const JsonCursor& device);

// "driver_bytes" of a device's memory.
void put_driver_bytes(Json& memory, const Known<DriverBytes>& bytes);
// Reports from before the key have none.
Known<DriverBytes> read_driver_bytes(const JsonCursor& memory);

}  // namespace ddpbench::report
