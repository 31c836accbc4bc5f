// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/missing_reason.h"

namespace ddpbench::report {
namespace {

constexpr double kMillisecond = 1e-3;
constexpr double kMebibyte = 1024.0 * 1024.0;
constexpr double kPercent = 0.01;

std::string fixed(double value, double unit, int decimals) {
  return fmt::format("{:.{}f}", value / unit, decimals);
}

std::string missing(const std::string& reason, Footnotes& notes) {
  return fmt::format("-{}", notes.mark(reason));
}

struct Format {
  double unit = 1;
  int decimals = 0;
};

std::string figure_cell(const Figure& figure, Format format, const Run& run, Footnotes& notes) {
  if (figure.value) return fixed(*figure.value, format.unit, format.decimals);
  return missing(missing_reason(figure, run), notes);
}

std::string error_note(const ErrorInfo& error) {
  std::string where;
  if (error.rank) where += fmt::format("rank {}, ", *error.rank);
  if (error.step) where += fmt::format("step {}, ", *error.step);
  return fmt::format("{}{}: {}", where, error.kind, error.message);
}

// "failed: rank 1, step 5, comm: connection lost"; empty when the run is ok.
std::string status_note(const Run& run) {
  if (run.status == Status::ok) return {};
  std::string why = run.reason;
  if (run.error) why = error_note(*run.error);
  return why.empty() ? std::string(to_string(run.status))
                     : fmt::format("{}: {}", to_string(run.status), why);
}

std::string strategy_cell(const Run& run, Footnotes&) { return run.strategy; }

// "2+1*(3)": two workers and a server, oversubscribed, with a note on the whole run.
std::string devices_cell(const Run& run, Footnotes& notes) {
  std::string cell = std::to_string(run.world_size);
  if (run.servers > 0) cell += fmt::format("+{}", run.servers);
  if (run.oversubscribed) cell += '*';
  if (run.status != Status::ok && run.step.time_s) cell += notes.mark(status_note(run));
  if (!run.injected.empty()) cell += notes.mark("injected: " + run.injected);
  return cell;
}

std::string repetition_cell(const Run& run, Footnotes&) { return std::to_string(run.repetition); }

std::string batch_cell(const Run& run, Footnotes&) {
  return fmt::format("{}/{}", run.per_device_batch_size, run.global_batch_size);
}

std::string step_cell(const Run& run, Footnotes& notes) {
  if (!run.step.time_s) return missing("no step was timed", notes);
  return fmt::format("{} ({})", fixed(run.step.time_s->median, kMillisecond, 2),
                     fixed(run.step.time_s->iqr, kMillisecond, 2));
}

std::string rate_cell(const Run& run, Footnotes& notes) {
  return figure_cell(run.samples_per_s, {}, run, notes);
}

std::string device_rate_cell(const Run& run, Footnotes& notes) {
  return figure_cell(run.samples_per_s_per_device, {}, run, notes);
}

std::string no_scaling(const Run& run, Footnotes& notes) {
  if (run.oversubscribed) return "-*";
  return missing(run.scaling_reason.empty() ? missing_reason(run) : run.scaling_reason, notes);
}

std::string speedup_cell(const Run& run, Footnotes& notes) {
  return run.scaling ? fixed(run.scaling->speedup, 1, 2) : no_scaling(run, notes);
}

std::string efficiency_cell(const Run& run, Footnotes& notes) {
  return run.scaling ? fixed(run.scaling->efficiency, kPercent, 1) : no_scaling(run, notes);
}

std::string phase_cell(const char* phase, const Run& run, Footnotes& notes) {
  const auto found = run.phases.find(phase);
  const Figure figure = found == run.phases.end() ? Figure{} : found->second;
  return figure_cell(figure, {kMillisecond, 2}, run, notes);
}

std::string comm_cell(const Run& run, Footnotes& notes) { return phase_cell("comm_s", run, notes); }

std::string exposed_cell(const Run& run, Footnotes& notes) {
  return phase_cell("comm_exposed_s", run, notes);
}

std::string primary_memory_cell(const Run& run, Footnotes& notes) {
  for (const DeviceRow& device : run.devices) {
    if (device.role == "worker" && device.rank == 0) {
      return fixed(static_cast<double>(device.peak_bytes), kMebibyte, 1);
    }
  }
  return missing("no memory was recorded", notes);
}

// The most that any other worker needed, so that an outlier shows.
std::string other_memory_cell(const Run& run, Footnotes& notes) {
  std::uint64_t most = 0;
  bool any = false;
  for (const DeviceRow& device : run.devices) {
    if (device.role != "worker" || device.rank == 0) continue;
    most = std::max(most, device.peak_bytes);
    any = true;
  }
  if (any) return fixed(static_cast<double>(most), kMebibyte, 1);
  return missing(run.world_size == 1 ? "one device" : "no memory was recorded", notes);
}

std::string loss_cell(const Run& run, Footnotes& notes) {
  if (run.epochs.empty()) return missing("no epoch ended", notes);
  const double loss = run.epochs.back().train_loss;
  return std::isfinite(loss) ? fixed(loss, 1, 4) : missing(kDivergedReason, notes);
}

std::string accuracy_cell(const Run& run, Footnotes& notes) {
  if (run.epochs.empty()) return missing("no epoch ended", notes);
  return figure_cell(run.epochs.back().test_accuracy, {kPercent, 2}, run, notes);
}

std::string verified_cell(const Run& run, Footnotes& notes) {
  const Verification& verification = run.verification;
  const auto with_reason = [&](const std::string& word) {
    return verification.reason.empty() ? word : word + notes.mark(verification.reason);
  };
  if (verification.status == "passed") return "yes";
  if (verification.status == "failed") return with_reason("NO");
  if (verification.status == "not_applicable") return with_reason("n/a");
  if (verification.status == "reference") return "ref.";
  return verification.status;
}

struct ColumnSpec {
  const char* top;
  const char* bottom;
  std::string (*cell)(const Run&, Footnotes&);
  bool joined = false;
};

constexpr std::size_t kKeys = 2;
// Widths of the headings are chosen so that two blocks of 80 columns hold them all.
constexpr ColumnSpec kColumns[] = {
    {"", "strategy", strategy_cell},
    {"", "devices", devices_cell},
    {"batch", "each/all", batch_cell},
    {"step ms", "median (IQR)", step_cell},
    {"samples", "/s", rate_cell},
    {"/s per", "device", device_rate_cell, true},
    {"speed-", "up", speedup_cell},
    {"effic.", "%", efficiency_cell, true},
    {"comm", "ms", comm_cell},
    {"exposed", "ms", exposed_cell, true},
    {"peak MiB", "primary", primary_memory_cell},
    {"peak MiB", "others", other_memory_cell, true},
    {"train", "loss", loss_cell},
    {"test", "acc. %", accuracy_cell, true},
    {"", "verified", verified_cell},
};

std::vector<ColumnSpec> columns_for(const Report& report) {
  std::vector<ColumnSpec> specs(std::begin(kColumns), std::end(kColumns));
  const bool repeated =
      std::ranges::any_of(report.runs, [](const Run& run) { return run.repetition > 0; });
  if (repeated) specs.insert(specs.begin() + kKeys, {"", "rep.", repetition_cell});
  return specs;
}

}  // namespace

TextTable run_table(const Report& report, Footnotes& notes) {
  const auto specs = columns_for(report);
  TextTable table;
  table.keys = kKeys + (specs.size() - std::size(kColumns));
  for (std::size_t c = 0; c < specs.size(); ++c) {
    table.columns.push_back({specs[c].top, specs[c].bottom, c < kKeys, specs[c].joined, {}});
  }
  for (const Run& run : report.runs) {
    // A run that failed before it was timed has nothing to show but why.
    const bool bare = run.status != Status::ok && !run.step.time_s;
    for (std::size_t c = 0; c < specs.size(); ++c) {
      const bool shown = !bare || c < table.keys;
      table.columns[c].cells.push_back(shown ? specs[c].cell(run, notes) : "");
    }
    table.instead.push_back(
        bare ? fmt::format("{} {}", to_string(run.status), notes.mark(status_note(run))) : "");
  }
  return table;
}

}  // namespace ddpbench::report
