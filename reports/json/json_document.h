// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A report's file: its bytes, and a JSON text in memory, parsed. Both are bounded (json_text.h).
// Private to reports/.
//
// simdjson's DOM, because a report of 10 million samples (216 MB) is to be read in a second or two.
// Processor time and peak memory of parsing one and copying the samples out, on the machine of
// docs/performance.md, which has the whole command's figures:
//   nlohmann DOM   2.9 s  366 MiB      nlohmann SAX   2.6 s  337 MiB
//   RapidJSON SAX  1.3 s  337 MiB      simdjson DOM   0.6 s  438 MiB     simdjson on-demand 0.5 s
// On-demand walks forward only, while a report is looked up by key. Both SAX would turn the reader,
// a field a line, into a state machine. simdjson says little about what is wrong with a text: for
// that, a text that it refuses is looked at again (base/json.h).
#pragma once

#include <simdjson.h>

#include <string>

#include "reports/json/json_cursor.h"

namespace ddpbench::report {

class JsonDocument {
 public:
  // Throws ConfigError for what is no JSON or exceeds the limits of size and depth. The text is not
  // needed afterwards; `name` stands for the file in messages and must outlive this.
  JsonDocument(const std::string& text, const std::string& name);

  JsonCursor root() const { return {document_.root(), name_}; }

 private:
  const std::string& name_;
  simdjson::dom::document document_;
};

// What a std::string needs beyond its size to be parsed without a copy.
inline constexpr std::size_t kJsonPadding = simdjson::SIMDJSON_PADDING;

// The bytes of a file, with room for kJsonPadding. Throws ConfigError for what is absent,
// unreadable, larger than kLargestReport or not a regular file: a directory has no bytes, a device
// or pipe might never end.
std::string read_report_text(const std::string& path);

}  // namespace ddpbench::report
