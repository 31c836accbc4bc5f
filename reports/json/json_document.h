// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the bytes of a report's file, and parses JSON text in memory. Both are bounded
// (json_text.h). Private to reports/.
//
// simdjson's DOM: a report of 10 million samples (216 MB) shall be read in a second or two.
// Processor time and peak memory of parsing one and copying the samples out, on the machine of
// docs/performance.md, which also has the figures of the whole command:
//   nlohmann DOM   2.9 s  366 MiB      nlohmann SAX   2.6 s  337 MiB
//   RapidJSON SAX  1.3 s  337 MiB      simdjson DOM   0.6 s  438 MiB     simdjson on-demand 0.5 s
// On-demand walks forward only, but the reader looks fields up by key. Either SAX would turn the
// reader, with one line for each field, into a state machine. simdjson says little about an error,
// so a text that it refuses is examined again (base/json.h).
#pragma once

#include <simdjson.h>

#include <string>

#include "reports/json/json_cursor.h"

namespace ddpbench::report {

class JsonDocument {
 public:
  // Throws ConfigError if `text` is no JSON or exceeds the limits of size and depth. `text` is not
  // needed afterwards. `name` stands for the file in messages and must outlive this object.
  JsonDocument(const std::string& text, const std::string& name);

  JsonCursor root() const { return {document_.root(), name_}; }

 private:
  const std::string& name_;
  simdjson::dom::document document_;
};

// Spare capacity that a std::string needs to be parsed without a copy.
inline constexpr std::size_t kJsonPadding = simdjson::SIMDJSON_PADDING;

// The bytes of a file, with kJsonPadding bytes of spare capacity. Throws ConfigError for a file
// that is absent, unreadable, larger than kLargestReport or not regular: a device or pipe might
// never end.
std::string read_report_text(const std::string& path);

}  // namespace ddpbench::report
