// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Subcommands with options of their own (show, ...), besides the comparison and its option table. A
// new one needs a class in a file of its own here, and a line in subcommands() (subcommand.cpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/ranges.h"
#include "bench/host/build_info.h"
#include "bench/host/host_devices.h"
#include "bench/options/command_words.h"
#include "bench/options/option_help.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

class Subcommand {
 public:
  virtual ~Subcommand() = default;
  // Adds options and names, bound to members of this object.
  virtual void define(CommandOptions& options) = 0;
  // Does what the options ask for and returns the exit code. Throws Error (base/error.h).
  virtual int run() = 0;
  // The whole command line, for commands that record it; set before run().
  std::vector<std::string> command_line;
};

struct SubcommandEntry {
  std::string name;     // "show"
  std::string usage;    // "ddpbench show REPORT..."
  std::string summary;  // a line for the list of commands
  std::function<std::unique_ptr<Subcommand>()> make;
};

// Each is defined in the source file of its name.
SubcommandEntry chart_entry();
SubcommandEntry check_entry();
SubcommandEntry html_entry();
SubcommandEntry import_entry();
SubcommandEntry models_entry();
SubcommandEntry predict_entry();
SubcommandEntry show_entry();
SubcommandEntry why_entry();  // show.cpp

// The subcommands in the order in which help and documents name them.
const std::vector<SubcommandEntry>& subcommands();
// Null when there is none.
const SubcommandEntry* find_subcommand(const std::string& name);

// Parses `arguments` (after the subcommand's name) and runs. Throws ConfigError for unknown options
// (naming the nearest one), missing values and missing arguments. `program`: argv[0].
int run_subcommand(const SubcommandEntry& entry, const std::vector<std::string>& arguments,
                   const std::string& program = "ddpbench");

// The options --output and --force. Without a path, or with "-", text goes to standard output.
struct TextOutput {
  std::string path;
  bool force = false;

  void define(CommandOptions& options,
              const std::string& help = "Write to this file instead of standard output");
  bool is_file() const { return !path.empty() && path != kStandardStream; }
  int width() const;  // the terminal's; 0 for a file
  // Where no path was given: the name of `input` with another extension, in the working directory.
  // Throws ConfigError for standard input, which has no name.
  void name_after(const std::string& input, const char* extension, const std::string& command);
  // Checks before any work. Throws ConfigError when the file exists without --force, cannot be
  // written, or is one of `inputs`, which not even --force replaces.
  void check(const std::string& command, const std::vector<std::string>& inputs) const;
  void write(const std::string& text) const;
};

// The members `name` of a table's rows.
template <typename Rows>
std::vector<std::string> names_of(const Rows& rows) {
  return mapped(rows, [](const auto& row) { return std::string(row.name); });
}

// What `ddpbench info` says (info.cpp): version, what was built in, devices, libraries, limits,
// places. `data`: the folder of data sets. At most `width` columns wide (0: not wrapped), but for
// words that are longer.
std::string info_text(const report::Environment& environment, const HostDevices& host,
                      const std::string& data, int width);
// Prints it of this machine; returns the exit code.
int show_info(const std::string& data);

// Runs rsvg-convert, the program of librsvg that turns SVG into other formats (rsvg_convert.cpp).
// Returns the document `svg` as "png" or "pdf", with `zoom` pixels for each of its units. Throws
// UnavailableError, with how to install it, when there is no rsvg-convert on PATH. Throws
// InternalError when it fails (with its message) or draws nothing.
std::string rsvg_convert(std::string_view svg, const std::string& format, int zoom);

// What --help and docs/cli.md show of them.
std::vector<CommandSummary> command_summaries();

// The whole program except the rank processes: parses, runs, prints errors; returns the exit code
// (command_line.cpp).
int command_line_main(const std::vector<std::string>& arguments);

}  // namespace ddpbench::bench
