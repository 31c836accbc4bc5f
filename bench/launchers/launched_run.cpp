// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/launched_run.h"

#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "bench/joined/joined_store.h"
#include "bench/joined/joined_world.h"
#include "bench/options/option_source.h"
#include "bench/options/option_table.h"
#include "bench/run/launch_run.h"
#include "parallel/launch/guilty_rank.h"
#include "reports/json/report_json.h"

namespace ddpbench::bench {

std::string launched_run_text(Options options) {
  options.json_path = kStandardStream;
  if (!options.trace_path.empty()) options.trace_path = kStandardStream;
  options.quiet = true;
  options.launcher.clear();
  options.hosts.clear();
  options.host_file.clear();
  options.remote_shell.clear();
  options.remote_program.clear();
  options.launcher_arguments.clear();
  return to_json(options).dump();
}

Options launched_run_options(const std::string& text) {
  return options_from_json(parse_json(text, kLaunchedRunVariable));
}

std::map<std::string, std::string> launched_run_variables(const Options& options) {
  return {{kLaunchedRunVariable, launched_run_text(options)},
          {"DDPBENCH_JOB_SECRET", launch::make_secret()}};
}

std::vector<std::string> variables_to_drop() {
  std::vector<std::string> names = option_variables();
  for (const char* const name :
       {"DDPBENCH_LAUNCHER", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
        "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE"}) {
    names.emplace_back(name);
  }
  return names;
}

int run_launched_rank(const std::string& text, const launch::GetVariable& get,
                      const std::vector<std::string>& arguments) {
  // srun gives a rank that is alone what an interactive shell gets, too.
  const launch::RankEnvironment alone;
  auto environment = launch::read_rank_environment(get).value_or(alone);
  environment.job_is_named = true;  // its secret is of this run alone
  return join_world(launched_run_options(text), environment, arguments, ReportReader::supervisor);
}

namespace {

constexpr std::string_view kOwnMessage = "ddpbench: ";
constexpr int kInterruptedCode = 130;
constexpr std::string_view kLostDaemon = "Remote daemon:";  // mpirun says after it which one

bool failed(const launch::ChildExit& exit) {
  return exit.code != 0 || exit.signal != 0 || !exit.is_known;
}

// Whether the code says more than that a rank has died.
bool tells_why(int code) {
  launch::RankError error;
  error.exit_code = code;
  return failure_exit_code(error) == code && code != 4;
}

std::string kind_of_code(int code) {
  if (code == 2) return ConfigError("").kind();
  if (code == 3) return UnavailableError("").kind();
  return code == 5 ? VerificationError("").kind() : CommError("").kind();
}

// How much a line of a launcher, a shell or a library says about why there is no run. srun tells
// the end of each task in an error, too, in no order with what the tasks say.
int weight_of(std::string_view line) {
  constexpr auto npos = std::string_view::npos;
  if (std::ranges::none_of(line, [](unsigned char c) { return std::isalpha(c) != 0; })) return 0;
  if (line.find("rror") == npos) return 1;  // srun: error: ...; Error: ...
  return line.find("Exited with exit code") != npos ? 2 : 3;
}

// Whether mpirun says that it has lost one of its daemons, which it has on each host.
bool tells_lost_host(std::string_view line) {
  return line.find("lost communication with a remote daemon") != line.npos ||
         line.find("unable to reliably start one or more daemons") != line.npos;
}

// The host that mpirun has lost, by the name that mpirun has for it; empty: it gives none.
std::string lost_node(std::string_view words) {
  constexpr std::string_view kOnNode = "on node ";
  const std::size_t at = words.rfind(kOnNode);
  if (at == words.npos) return "";
  const std::string_view rest = words.substr(at + kOnNode.size());
  return std::string(rest.substr(0, rest.find_first_of(" \t\r")));
}

// The first rank of a run on a host of that name.
std::optional<int> rank_on(const std::string& host, const report::Run& run) {
  const auto device = std::ranges::find(run.devices, host, &report::DeviceRow::host);
  return device == run.devices.end() ? std::nullopt : std::optional(device->rank);
}

// What a process without a message of ours has ended with.
std::string words_of_end(const launch::ChildExit& exit, const std::string& foreign) {
  if (exit.signal != 0) return fmt::format("{} ended a rank", launch::signal_name(exit.signal));
  if (foreign.empty()) {
    return fmt::format("a rank ended with exit code {} and said nothing", exit.code);
  }
  return fmt::format("a rank, or what starts it, ended with exit code {} and said: {}", exit.code,
                     foreign);
}

// Null for what is no report. Behind one launcher, lines of several ranks may be mixed.
std::optional<report::Report> report_of(const std::string& text) {
  try {
    return report::parse_report(text, "the report of the ranks");
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

void add_trace_part(report::TraceParts& trace, const std::string& text) {
  try {
    trace.add(text);
  } catch (const ConfigError&) {
    // Without this part the trace does not become whole.
  }
}

}  // namespace

// A report is JSON for people: its first line and its last are a brace alone.
void RunOutcome::add_output(const std::string& line) {
  if (line == "{") {
    in_report_ = true;
    growing_.clear();
  }
  if (!in_report_) return;
  growing_ += line;
  growing_ += '\n';
  if (line != "}") return;
  in_report_ = false;
  add_report(0, std::exchange(growing_, ""));
}

void RunOutcome::add_report(int host, const std::string& text) {
  if (report::is_trace_text(text)) return add_trace_part(traces_[host], text);
  if (report_ && host > reporter_) return;
  auto report = report_of(text);
  if (!report) return;
  report_ = std::move(report);
  reporter_ = host;
}

void RunOutcome::add_error(const std::string& line) {
  if (line.starts_with(kOwnMessage)) {
    complaint_ = printable(line.substr(kOwnMessage.size()));
    is_given_up_ = is_given_up_ || line.find(kWaitingWords) == std::string::npos;
    return;
  }
  if (tells_lost_host(line)) lost_host_ = printable(line);
  const std::size_t which = line.find(kLostDaemon);
  if (which != line.npos && !lost_host_.empty()) lost_host_ += " " + printable(line.substr(which));
  if (weight_of(line) > weight_of(foreign_)) foreign_ = printable(line);
}

int RunOutcome::exit_code() const {
  constexpr int kDied = 4;
  return tells_why(exit_->code) ? exit_->code : kDied;
}

// Of a run without a report.
report::ErrorInfo RunOutcome::error_of_launcher() const {
  report::ErrorInfo error;
  error.kind = kind_of_code(exit_->code);
  if (exit_->signal != 0) error.signal = exit_->signal;
  error.message = complaint_.empty() ? words_of_end(*exit_, foreign_) : complaint_;
  return error;
}

LaunchedRun RunOutcome::conclude(bool interrupted) const {
  LaunchedRun made;
  if (report_ && !report_->runs.empty()) made.run = report_->runs.front();
  const auto trace = traces_.find(reporter_);
  if (report_ && trace != traces_.end()) made.trace = trace->second.whole();
  if (made.run && report::is_complete(*made.run)) {
    made.error = made.run->error;  // of one that diverged
    if (made.error) made.exit_code = kDivergedExitCode;
    return made;
  }
  const bool by_ranks =
      report_ ? report_->status == report::Status::interrupted : exit_->code == kInterruptedCode;
  // mpirun asks all ranks to end when it has lost a host, also before they have noticed it.
  const bool lost_host = by_ranks && !interrupted && !lost_host_.empty();
  made.interrupted = interrupted || (by_ranks && !lost_host);
  if (made.interrupted || (!report_ && !failed(*exit_))) return made;
  if (lost_host) {
    report::ErrorInfo& error = made.error.emplace();
    error.kind = CommError("").kind();
    error.message = fmt::format("the launcher has ended the ranks: {}", lost_host_);
    error.host = lost_node(lost_host_);
    if (made.run && !error.host.empty()) error.rank = rank_on(error.host, *made.run);
    if (made.run) made.run->status = report::Status::failed;
  } else {
    made.error = made.run && made.run->error ? made.run->error
                 : report_ && report_->error ? report_->error
                                             : error_of_launcher();
  }
  made.exit_code = exit_code();
  if (made.run && (lost_host || made.run->error)) made.run->error = made.error;
  return made;
}

}  // namespace ddpbench::bench
