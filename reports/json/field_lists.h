// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The fields of a report's structs: one list for each struct, used for both writing and reading.
// Private to reports/.
//
// A list names each field once, in the order of schema/report-1.schema.json, by a call of a
// function that FieldWriter and FieldReader both have. The writer writes the value, the reader
// checks it and fills it in. To add a field: the member in data/report.h, a line in its list, a
// line in the schema, and a value in tests/reports/sample_report.cpp.
#pragma once

#include "reports/json/field_reader.h"
#include "reports/json/field_writer.h"

namespace ddpbench::report {

// The reason for a figure of the system that the system did not tell.
inline constexpr const char* kUnknown = "not reported by this system";

void report_fields(FieldWriter& f, const Report& report);  // report_fields.cpp
void report_fields(FieldReader& f, Report& report);
void run_fields(FieldWriter& f, const Run& run);  // run_fields.cpp
void run_fields(FieldReader& f, Run& run);
void error_fields(FieldWriter& f, const ErrorInfo& error);
void error_fields(FieldReader& f, ErrorInfo& error);
void statistics_fields(FieldWriter& f, const StepStatistics& time);
void statistics_fields(FieldReader& f, StepStatistics& time);
// `reason`: for missing figures that have no reason of their own.
void device_fields(FieldWriter& f, const DeviceRow& device, const std::string& reason);
void device_fields(FieldReader& f, DeviceRow& device, const std::string& reason);
void gpu_fields(FieldWriter& f, const GpuInfo& gpu);  // device_fields.cpp
void gpu_fields(FieldReader& f, GpuInfo& gpu);
// "collectives" and "memory_bandwidth", each only if it has rows; collective_fields.cpp.
void collective_fields(FieldWriter& f, const Report& report);
void collective_fields(FieldReader& f, Report& report);

}  // namespace ddpbench::report
