// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the step times that another program wrote, as csv (RFC 4180, with a header) or as JSON
// lines (an object a line). docs/ci.md ("A program of your own") describes the columns:
//
//   step         number of the step, from 0 or wherever the program begins
//   seconds      how long it, or the phase, took
//   repetition   from 0 (default 0): another start of the program
//   rank         from 0 (default 0)
//   phase        "forward", "comm", ...; empty: the row is of the whole step
//   memory       bytes that the rank's device holds at most (only of whole steps, as is loss)
//   loss         training loss of the rank's samples; nan and inf of training that diverged
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddpbench::report {

// A row of the file.
struct StepTime {
  std::size_t line = 0;  // of the file, from 1
  int repetition = 0, rank = 0;
  std::int64_t step = 0;
  double seconds = 0;  // above 0; of a phase at least 0
  std::string phase;   // empty: the whole step
  std::optional<double> memory_bytes, loss;
};

struct StepTimes {
  std::vector<StepTime> rows;         // not empty
  std::vector<std::string> not_read;  // columns or keys of the file that have no meaning here
};

enum class StepFormat : std::uint8_t { csv, jsonl };
// By the end of the name: .csv, or .jsonl or .ndjson. Throws ConfigError for any other.
StepFormat step_format(const std::string& path);
// By the first character, where there is no name: lines of JSON begin with a brace, no header does.
StepFormat step_format_of_text(std::string_view text);

// A byte order mark of UTF-8 is skipped. Throws ConfigError that names `path`, line and column for
// what is not as above.
StepTimes parse_step_times(std::string_view text, StepFormat format, const std::string& path);

}  // namespace ddpbench::report
