// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Column: one thing that can be said of a run, as people read it in a table, and under which key
// and unit programs do.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "reports/data/report_view.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {

// Empty (monostate) where the figure is missing: then with the reason.
using Scalar = std::variant<std::monostate, bool, std::int64_t, double, std::string>;
struct FieldValue {
  Scalar value;
  std::string reason = {};
};

enum class Role : std::uint8_t {
  identity,  // says which run it is
  measure,   // a figure that was measured
  remark,    // anything else
};
enum class Better : std::uint8_t { neither, smaller, bigger };

// A value with the report's key, unit in its name ("step_time_median_s").
struct Field {
  std::string key;
  Role role = Role::remark;
  std::function<FieldValue(const RunRow&)> value;
  Better better = Better::neither;
};

struct Column {
  std::string name;         // for --columns
  std::string about;        // for --columns=help; with the unit of the table's cell
  std::string top, bottom;  // heading in the table
  // As people read it; reasons for what is missing go to the notes.
  std::function<std::string(const RunRow&, Footnotes&)> cell;
  std::vector<Field> fields;  // at least one
  bool key = false;           // says which run it is: stays beside all others in a narrow table
  bool left = false;          // alignment
  bool joined = false;        // belongs beside the column before it
  bool in_table = false;      // one of the table's default columns
};
using Columns = std::vector<const Column*>;

}  // namespace ddpbench::report
