// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Tables of records that are no runs (networks, largest batches), in the formats in which a command
// prints them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace ddpbench::report {

// std::monostate: there is none. In csv it is an empty cell, in json null.
using RecordValue = std::variant<std::monostate, std::string, std::int64_t, double>;

struct RecordCell {
  RecordValue value;
  std::string text;  // as people read it
};

struct RecordColumn {
  std::string key;          // in csv and json
  std::string top, bottom;  // the two lines of the heading in table and markdown; both empty: it
                            // has no place there
  bool left = false;        // alignment
  bool for_people() const { return !top.empty() || !bottom.empty(); }
};

struct Records {
  std::string name;     // of the list in json: "networks"
  std::string caption;  // a line above the table; may be empty
  std::vector<RecordColumn> columns;
  std::vector<std::vector<RecordCell>> rows;  // [row][column]
  std::vector<std::string> notes;             // what the columns mean; lines below the table
};

// "table", "markdown", "csv", "json".
const std::vector<std::string>& record_formats();

// Returns the records in one of these formats; a table in lines of at most `width` characters where
// that is possible (0: any). Throws InternalError for another format.
std::string render_records(const Records& records, const std::string& format, std::size_t width);

}  // namespace ddpbench::report
