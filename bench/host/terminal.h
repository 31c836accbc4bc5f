// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The program's output, and the signals that end a run. Text that cannot be written never ends a
// run, whose results are worth more; finish_output tells of it at the end.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace ddpbench::bench {

// The columns of the terminal that stdout is. Where it is none, those that COLUMNS asks for; 0: no
// limit.
int terminal_width();

// Whether stdout is a terminal. That which mpirun gives its ranks is none: it may lead to a file.
bool writes_to_terminal();

void put(std::FILE* file, const std::string& text) noexcept;

// From now on say() prints nothing (--quiet).
void be_quiet();
bool is_quiet();

// Prints to stdout, to stderr.
template <typename... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (!is_quiet()) put(stdout, fmt::format(format, std::forward<Arguments>(arguments)...));
}
template <typename... Arguments>
void say_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  put(stderr, fmt::format(format, std::forward<Arguments>(arguments)...));
}

// Whether text for stdout may have colours: it goes to a terminal, and NO_COLOR (no-color.org) is
// not set.
bool has_colours();
// The table with the cells coloured that a reader must not miss. Columns keep their places.
std::string coloured(const std::string& table);
// Prints a table to stdout, with colours where it has them.
void say_table(const std::string& table);

// The last line of a terminal, redrawn in its place and never wider than it.
class StatusLine {
 public:
  void draw(const std::string& text);
  void clear();

 private:
  std::size_t drawn_ = 0;  // columns
};

// The longest beginning of `text` that fits `columns` (0: no limit), with an ellipsis when cut.
std::string cut_to_columns(const std::string& text, std::size_t columns);

// From now on messages for people go to stderr, so that another program can read what this one
// writes to standard output. Returns a descriptor of the original standard output.
FileDescriptor take_standard_output();
// Writes all of `text` to such a descriptor. Throws ConfigError when that fails.
void write_standard_output(const FileDescriptor& output, std::string_view text);

// Writes what stdout holds back. Throws ConfigError when that, or anything before, did not arrive.
void finish_output();

// Ends what a signal asked to end.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
  const char* kind() const noexcept override { return "interrupted"; }
  int exit_code() const noexcept override { return 130; }
};

// From now on signals that would end the process set a flag instead, so that a report is left. But
// for SIGINT and SIGTERM they stay ignored if they were (nohup). After SIGPIPE the stream that lost
// its reader (stdout, stderr) is replaced by /dev/null.
void catch_interrupts();
bool interrupt_requested();
// The last such signal; 0: none yet.
int interrupt_signal();

}  // namespace ddpbench::bench
