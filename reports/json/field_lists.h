// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The fields of a report's structs: one list a struct, from which both writing and reading follow.
// Private to reports/.
//
// A list names each field once, in the order of schema/report-1.schema.json, with a function of
// FieldWriter and FieldReader: the one writes the value, the other checks and fills it. To add a
// field: the member in data/report.h, a line in its list, a line in the schema, and a value in
// tests/reports/sample_report.cpp.
#pragma once

#include "reports/json/field_reader.h"
#include "reports/json/field_writer.h"

namespace ddpbench::report {

// Why a system did not tell a figure of its own.
inline constexpr const char* kUnknown = "not reported by this system";

void report_fields(FieldWriter& f, const Report& report);  // report_fields.cpp
void report_fields(FieldReader& f, Report& report);
void run_fields(FieldWriter& f, const Run& run);  // run_fields.cpp
void run_fields(FieldReader& f, Run& run);
void error_fields(FieldWriter& f, const ErrorInfo& error);
void error_fields(FieldReader& f, ErrorInfo& error);
void statistics_fields(FieldWriter& f, const StepStatistics& time);
void statistics_fields(FieldReader& f, StepStatistics& time);
// `reason`: why figures are missing that have no reason of their own.
void device_fields(FieldWriter& f, const DeviceRow& device, const std::string& reason);
void device_fields(FieldReader& f, DeviceRow& device, const std::string& reason);
void gpu_fields(FieldWriter& f, const GpuInfo& gpu);  // device_fields.cpp
void gpu_fields(FieldReader& f, GpuInfo& gpu);
// "collectives" and "memory_bandwidth", where there are any. collective_fields.cpp
void collective_fields(FieldWriter& f, const Report& report);
void collective_fields(FieldReader& f, Report& report);

}  // namespace ddpbench::report
