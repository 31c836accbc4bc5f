// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A trace as text from one process to another of the same program. It loses nothing. As a trace may
// be large, it is cut into parts, whose order does not matter.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/math.h"
#include "reports/exports/trace.h"

namespace ddpbench::report {

// Each part is JSON whose first line and last are a brace alone, as in a report, with a line for
// each event: a reader of lines finds both in one stream. It is as long as `part_bytes` and one
// event at most. There is at least one.
std::vector<std::string> trace_texts(const Trace& trace, std::size_t part_bytes = kMiB);

// Whether `text` begins like a part: no report does.
bool is_trace_text(std::string_view text);

// Puts a trace together from its parts.
class TraceParts {
 public:
  // The same part may come again. Throws ConfigError for anything that trace_texts() does not
  // write.
  void add(const std::string& text);
  // The trace, once all parts are here. Events of one list are in the order in which they were.
  std::optional<Trace> whole() const;

 private:
  std::size_t count_ = 0;
  std::map<std::size_t, Trace> parts_;  // by their number
};

}  // namespace ddpbench::report
