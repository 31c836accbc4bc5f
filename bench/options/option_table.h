// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The one table of options. Flags, DDPBENCH_ variables, configuration keys, their schema, --help
// and docs/cli.md all come from it, so they cannot differ. The commands that read reports (show,
// ...) have rows of the same kind (command_words.h), which set members of their own.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bench/options/options.h"

namespace ddpbench::bench {

// The commands that share this table; the others have rows of their own.
enum class Command : std::uint8_t {
  run,
  tune,
  fit,
  comm,
  info,
  data_list,
  data_fetch,
  help,
  version
};

// Stands for gpus and all_gpus, which one option sets.
struct GpuList {};
// Stands for an option that is no member of Options: --help, --version.
struct NoMember {};

// The member of Options, or the variable, that an option sets. Its type decides how it is read.
using Member =
    std::variant<NoMember, GpuList, std::string Options::*, std::vector<std::string> Options::*,
                 std::vector<Injection> Options::*, std::vector<bool> Options::*,
                 std::vector<int> Options::*, std::vector<std::int64_t> Options::*,
                 std::vector<double> Options::*, bool Options::*, int Options::*,
                 std::uint64_t Options::*, std::optional<std::int64_t> Options::*,
                 std::optional<Percent> Options::*, double Options::*, PerChannel Options::*, bool*,
                 int*, std::optional<std::int64_t>*, Percent*, std::string*,
                 std::optional<std::string>*, std::vector<int>*, std::vector<std::string>*>;

// kIsList: whether a member's type is a list. EntryOf: the type of one entry or of the only value.
template <typename T>
inline constexpr bool kIsList = false;
template <typename T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <typename T>
struct Entry {
  using Type = T;
};
template <typename T>
struct Entry<std::vector<T>> {
  using Type = T;
};
template <typename T>
struct Entry<std::optional<T>> {
  using Type = T;
};
template <typename T>
using EntryOf = typename Entry<T>::Type;

// For std::visit over a Member: one function for NoMember, one for GpuList, one for the rest.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

// The values that an option takes, beyond its type.
struct ValueRule {
  std::vector<std::string> choices = {};  // for text; empty: any text that is not empty
  bool takes_all = false;                 // "all" in a list stands for all choices
  double minimum = 0;
  double maximum = std::numeric_limits<double>::infinity();  // included
  bool above_minimum = false;                                // the minimum itself is excluded
  bool below_maximum = false;                                // the maximum itself is excluded
};

inline ValueRule anything() { return {}; }  // numbers from 0
inline ValueRule one_of(std::vector<std::string> choices) {
  return {.choices = std::move(choices)};
}
inline ValueRule all_or_some_of(std::vector<std::string> choices) {
  return {.choices = std::move(choices), .takes_all = true};
}
inline ValueRule between(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum};
}
inline ValueRule from(double minimum) { return {.minimum = minimum}; }
inline ValueRule positive() { return {.above_minimum = true}; }
inline ValueRule above_zero_to(double maximum) {
  return {.maximum = maximum, .above_minimum = true};
}

// More than any machine has: a slipped digit is refused before it becomes an allocation.
inline constexpr double kMostDevices = 65536, kMostTimes = 1e6, kMostAccumulationSteps = 10000;

// The values of another option with which an option does something. `option` empty: always;
// `values` empty: all but its default.
struct OnlyWith {
  std::string option = {};
  std::vector<std::string> values = {};
};

// Bits. Without one an option is of a run and of tune, and given by a flag, a variable or a file.
enum OptionTrait : unsigned {
  kPerRun = 1,        // entries of a configuration's "runs" may set it (option_source.h)
  kPlannedByFit = 2,  // fit takes it, because it decides what is in memory
  kNotOfTune = 4,     // tune decides it itself, and starts its runs itself
  kOfComm = 8,        // comm takes it, too
  kOfFetch = 16,      // data fetch takes it, too
  kOfData = 32,       // info and both data commands take it, too
  kTuneAlone = 64,
  kFitAlone = 128,
  kCommAlone = 256,
  kNoFlag = 512,
  kNoVariable = 1024,
  kNoKey = 2048,  // in configuration files
  kFlagOnly = kNoVariable | kNoKey,
  kKeyOnly = kNoFlag | kNoVariable,
  kBare = 4096,  // a list of one value is shown and written as that value, without brackets
  // It changes which runs are made or where files lie, not what a run does: a report may be resumed
  // with another value of it.
  kFreeOnResume = 8192,
  kTakesWords = 16384,  // all words up to the next option
  kRequired = 32768
};

// A row of the table. Its members stand in the order in which rows give them.
struct OptionDefinition {
  std::string name;  // "batch-size"; "dataset.name" for a key that only a file has
  unsigned traits = 0;
  // What its value looks like: "N", "N,..." for a list. Empty: its choices, or without choices a
  // switch, which is on when named.
  std::string hint = {};
  Member member = NoMember{};
  ValueRule rule = {};
  std::string help = {};          // a sentence or two
  std::string default_text = {};  // where the member's default does not say it
  std::string json_key = {};      // canonical JSON pointer, "/optimizer/lr"; empty: of the name
  OnlyWith only_with = {};        // with other values of that option it does nothing (is_heeded)
  std::string other_name = {};    // one more flag that gives it: "-o"
  std::string group = {};         // heading in --help

  bool has(unsigned trait) const { return (traits & trait) != 0; }
  bool is_flag() const { return !has(kNoFlag); }
  bool is_variable() const { return !has(kNoVariable); }
  bool is_key() const { return !has(kNoKey); }
  bool is_switch() const { return hint.empty(); }
  bool is_list() const;  // several values, separated by commas
  std::string flag() const { return "--" + name; }
  std::vector<std::string> flags() const;      // "-o", "--output"
  std::vector<std::string> variables() const;  // "DDPBENCH_BATCH_SIZE", and of other long names
  // The JSON pointers of the configuration keys that set it, the canonical one last.
  std::vector<std::string> file_keys() const;
  std::string canonical_key() const;
  bool applies_to(Command command) const;
  // Runs of a report that differ in it have different settings (reports/data/settings.h).
  bool is_per_run() const { return has(kPerRun); }
};

using Definitions = std::vector<OptionDefinition>;
inline constexpr const char* kHostsGroup = "Experts: hosts and launchers";  // `help hosts`
const Definitions& option_table();  // option_definitions.cpp
// The parts of them that say how a network is trained (training_options.cpp).
Definitions training_options();
Definitions expert_training_options();
// The rows with this heading.
Definitions in_group(const std::string& group, Definitions rows);
// The row with its hint, where its choices make it.
OptionDefinition with_hint(OptionDefinition row);

// Returns null when there is none. `name` has no dashes in front; '_' and '-' are the same.
const OptionDefinition* find_flag(const std::string& name);

// The DDPBENCH_ variables of all options that have one.
std::vector<std::string> option_variables();

// The DDPBENCH_ variables that are no options: those of the job and of the build.
const std::vector<std::string>& reserved_variables();

// "batch_size" <-> "batch-size".
std::string with_underscores(std::string name);
std::string with_dashes(std::string name);

}  // namespace ddpbench::bench
