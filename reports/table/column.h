// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Column: one fact about a run, as people read it in a table, and with the key and unit under which
// programs read it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "reports/data/report_view.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {

// monostate where the figure is missing; FieldValue::reason then says why.
using Scalar = std::variant<std::monostate, bool, std::int64_t, double, std::string>;
struct FieldValue {
  Scalar value;
  std::string reason = {};
};

enum class Role : std::uint8_t {
  identity,  // says which run it is
  measure,   // a figure that was measured
  remark,    // other facts
};
enum class Better : std::uint8_t { neither, smaller, bigger };

// A value under the report's key, which names the unit ("step_time_median_s").
struct Field {
  std::string key;
  Role role = Role::remark;
  std::function<FieldValue(const RunRow&)> value;
  Better better = Better::neither;
};

struct Column {
  std::string name;         // for --columns
  std::string about;        // for --columns=help
  std::string top, bottom;  // the two lines of the heading
  // The text for people. The reason for a missing value goes to the notes.
  std::function<std::string(const RunRow&, Footnotes&)> cell;
  std::vector<Field> fields;  // at least one
  bool key = false;           // says which run it is; in a narrow table every block has it
  bool left = false;          // alignment
  bool joined = false;        // stays beside the column before it
  bool in_table = false;      // one of the table's default columns
};
using Columns = std::vector<const Column*>;

}  // namespace ddpbench::report
