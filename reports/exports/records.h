// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Tables of records that are no runs (networks, largest batches), in the formats in which a command
// prints them; and what these formats share with those of runs (run_formats.h).
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/json/json_text.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {

struct RecordCell {
  Json value;        // text, a number or null; in csv null is an empty cell
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

// RFC 4180 with LF line ends: a header, then a line for each of the flat objects. `reasons`: a last
// column, "missing", has what stands under "<key>_reason".
std::string csv_lines(const std::vector<std::string>& keys, const std::vector<Json>& objects,
                      bool reasons);

// Text in which Markdown sees no markup.
std::string markdown_escaped(const std::string& text);
// A table of GitHub's Markdown (https://github.github.com/gfm/#tables-extension-), with lines above
// and below it.
std::string markdown_page(const std::string& caption, const TextTable& table,
                          const std::vector<std::string>& notes);

}  // namespace ddpbench::report
