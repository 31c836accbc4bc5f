// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The cells of the columns, which columns a table has, and in which order its rows stand.
#include "reports/table/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "reports/data/settings.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::report {
namespace {

// ---- cells ----

std::string fixed(double value, Format format) {
  return fmt::format("{:.{}f}", value / format.unit, format.decimals);
}

// "-(1)".
std::string missing_cell(const std::string& reason, Footnotes& notes) {
  return "-" + notes.mark(reason);
}

// "2+1*(3)": two workers and a server, oversubscribed, with a note on the whole run.
std::string devices_cell(const RunRow& row, Footnotes& notes) {
  const Run& run = *row.run;
  std::string cell = std::to_string(run.world_size);
  if (run.servers > 0) cell += fmt::format("+{}", run.servers);
  if (run.oversubscribed) cell += '*';
  if (run.status != Status::ok && !is_bare(run)) cell += notes.mark(status_note(run));
  if (!run.injected.empty()) cell += notes.mark("injected: " + run.injected);
  if (row.repeated != nullptr && !row.repeated->note.empty()) {
    cell += notes.mark(row.repeated->note);
  }
  if (!row.marks.empty()) cell += fmt::format("[{}]", row.marks);
  return cell;
}

std::string batch_cell(const RunRow& row, Footnotes& notes) {
  const Run& run = *row.run;
  if (run.per_device_batch_size == 0) return missing_cell("the batch size is not recorded", notes);
  return fmt::format("{}/{}", run.per_device_batch_size, run.global_batch_size);
}

// Counts from 1, like the progress lines.
std::string repetition_cell(const RunRow& row, Footnotes&) {
  return row.repeated != nullptr ? "all" : std::to_string(row.run->repetition + 1);
}

std::string repetitions_cell(const RunRow& row, Footnotes&) {
  if (row.repeated == nullptr) return "1";
  const std::size_t all = row.repeated->runs.size(), timed = row.repeated->timed.size();
  return timed == all ? std::to_string(all) : fmt::format("{} of {}", timed, all);
}

// "20.00 (1.00)".
std::string step_cell(const RunRow& row, Footnotes& notes) {
  const std::vector<Field>& fields = find_column("step")->fields;
  const FieldValue median = fields.front().value(row);
  if (median.value.index() == 0) return missing_cell(median.reason, notes);
  const Scalar iqr = fields.back().value(row).value;
  const auto text = [](const Scalar& value) {
    const auto* seconds = std::get_if<double>(&value);
    return seconds == nullptr ? "-" : fixed(*seconds, {1e-3, 2});
  };
  return fmt::format("{} ({})", text(median.value), text(iqr));
}

std::string verified_cell(const RunRow& row, Footnotes& notes) {
  constexpr std::pair<std::string_view, const char*> kWords[] = {
      {"passed", "yes"}, {"reference", "ref."}, {"failed", "NO"}, {"not_applicable", "n/a"}};
  const Verification& verification = verification_of(row);
  const auto found =
      std::ranges::find(kWords, verification.status, [](const auto& word) { return word.first; });
  const std::string word = found == std::end(kWords) ? verification.status : found->second;
  const bool told = verification.status == "failed" || verification.status == "diverged" ||
                    verification.status == "not_applicable";
  return told && !verification.reason.empty() ? word + notes.mark(verification.reason) : word;
}

// What a cell's mark says beside its value; empty: nothing.

std::string status_words(const RunRow& row) { return status_note(*row.run); }

// Whether --steps ended the epochs before they had seen the whole training set. An incomplete batch
// may be left out at the end of a whole one.
std::string epoch_note(const RunRow& row) {
  const Run& run = *row.run;
  if (run.epochs.empty() || run.train_samples == 0 ||
      run.epochs.back().samples + run.global_batch_size > run.train_samples) {
    return "";
  }
  return fmt::format("epochs of {} of {} samples (--steps)", run.epochs.back().samples,
                     run.train_samples);
}

std::string peak_note(const RunRow& row) {
  if (peak_share(*row.run).value.value_or(0) <= 1) return "";
  return "above 100 %: operations are counted as those of direct convolutions, of which Winograd "
         "makes fewer; or the clock was lower when the peak was measured";
}

std::string scaling_note(const RunRow& row) {
  const auto& scaling = row.run->scaling;
  return scaling && scaling->baseline != kBaseline ? "against " + scaling->baseline : "";
}

std::string accuracy_note(const RunRow& row) {
  return row.repeated == nullptr ? "" : row.repeated->accuracy_note;
}

constexpr std::pair<std::string_view, std::string (*)(const RunRow&, Footnotes&)> kCells[] = {
    {"devices", devices_cell}, {"batch", batch_cell},       {"repetition", repetition_cell},
    {"step", step_cell},       {"verified", verified_cell}, {"repetitions", repetitions_cell}};

constexpr std::pair<std::string_view, std::string (*)(const RunRow&)> kNotes[] = {
    {"status", status_words},
    {"speedup", scaling_note},
    {"efficiency", scaling_note},
    {"epoch", epoch_note},
    {"peak-share", peak_note},
    {"to-accuracy", accuracy_note},
    {"comm", [](const RunRow& row) { return composed_words(*row.run); }}};

std::string value_cell(const Column& column, const RunRow& row, Footnotes& notes) {
  const Field& field = column.fields.front();
  const FieldValue value = field.value(row);
  if (const auto* text = std::get_if<std::string>(&value.value)) return text->empty() ? "-" : *text;
  if (const auto* number = std::get_if<double>(&value.value))
    return column.name.ends_with("rate") ? short_number(*number) : fixed(*number, column.format);
  if (const auto* count = std::get_if<std::int64_t>(&value.value)) {
    return field.is_bytes() ? fixed(static_cast<double>(*count), column.format)
                            : std::to_string(*count);
  }
  return column.is(kLeft) ? "-" : missing_cell(value.reason, notes);
}

// "1.88 (1.85..1.90)"; the cell of the column `plain` where nothing is known of the noise: it says
// why a figure is missing, and what a speed-up is measured against.
std::string interval_cell(const Column& column, const RunRow& row, Footnotes& notes) {
  const Format format = column.format;
  const Column& plain = *find_column(column.name.substr(0, column.name.rfind('-')));
  const Scalar value = plain.fields.front().value(row).value;
  const auto* known = std::get_if<double>(&value);
  // The one of the step has the spread of steps in brackets.
  const bool own_text = known != nullptr && plain.name == "step";
  const std::string text = own_text ? fixed(*known, format) : plain.cell(row, notes);
  const Scalar low = column.fields.front().value(row).value;
  const Scalar high = column.fields.back().value(row).value;
  if (known == nullptr || low.index() == 0 || high.index() == 0) return text;
  return fmt::format("{} ({}..{})", text, fixed(std::get<double>(low), format),
                     fixed(std::get<double>(high), format));
}

// ---- which columns a table has ----

const Column* known_column(const std::string& name) {
  const Column* column = find_column(name);
  ensure(column != nullptr, "there is no column {}", name);
  return column;
}

// Whether runs of one strategy differ in its options: their rows would look alike without them. A
// run that names none may be of a program that does not record them. On another number of devices a
// strategy may have other options.
bool options_vary(std::span<const RunRow> rows) {
  using Peers = std::tuple<std::string, int, int, bool>;
  std::map<std::pair<std::string, std::string>, std::string> values;  // strategy, option -> value
  std::map<Peers, std::vector<std::string>> named;
  const auto differs = [](auto& firsts, const auto& key, const auto& value) {
    return firsts.try_emplace(key, value).first->second != value;
  };
  for (const RunRow& row : rows) {
    const Run& run = *row.run;
    std::vector<std::string> all, unusual;  // reports name these only where they are not as usual
    for (const auto& [name, value] : run.strategy_options) {
      if (differs(values, std::pair(run.strategy, name), value)) return true;
      all.push_back(name);
      if (is_usual_without("strategy_options/" + name)) unusual.push_back(name);
    }
    if (differs(named, Peers(run.strategy, run.world_size, run.servers, false), unusual) ||
        (!all.empty() &&
         differs(named, Peers(run.strategy, run.world_size, run.servers, true), all))) {
      return true;
    }
  }
  return false;
}

// Whether runs that have figures differ in the column, as far as they know it.
bool varies(std::span<const RunRow> rows, const Column& column) {
  std::optional<Scalar> first;
  for (const RunRow& row : rows) {
    const Scalar value = column.fields.front().value(row).value;
    if (is_bare(*row.run) || value.index() == 0) continue;
    if (!first) first = value;
    if (value != *first) return true;
  }
  return false;
}

// A column that stands behind another one where it applies to a row.
struct Companion {
  const char *name, *behind;
  bool (*applies)(const Run&);
};
constexpr auto kOnGpus = [](const Run& run) {
  return gpu_figure(run, &GpuTelemetry::utilization_ratio).value.has_value();
};
constexpr Companion kCompanions[] = {
    {"clock", "other-memory", kOnGpus},
    {"power", "other-memory", kOnGpus},
    {"gpu-use", "other-memory", kOnGpus},
    {"divergence", "verified",
     [](const Run& run) { return run.verification.divergence.has_value(); }},
    {"staleness", "exposed", [](const Run& run) { return run.pushes.has_value(); }},
    {"updates", "exposed", [](const Run& run) { return run.pushes.has_value(); }},
    {"skipped", "epoch",
     [](const Run& run) {
       return run.loss_scaling && run.loss_scaling->skipped_updates > 0 && !is_bare(run);
     }},
    // The imbalance of dp beside the primary's communication.
    {"others-idle", "exposed", [](const Run& run) { return others_idle(run).value.has_value(); }},
    {"to-accuracy", "epoch", [](const Run& run) { return run.until_accuracy && !is_bare(run); }},
    {"miou", "accuracy", [](const Run& run) { return final_miou(run).value.has_value(); }},
    // What batch norm exchanges within the passes is no part of the communication beside them.
    {"sync", "exposed", [](const Run& run) { return run.phases.contains("sync_batch_norm_s"); }}};

}  // namespace

std::string Column::cell(const RunRow& row, Footnotes& notes) const {
  const auto special = std::ranges::find(kCells, name, [](const auto& cell) { return cell.first; });
  if (special != std::end(kCells)) return special->second(row, notes);
  if (!row.doubt.empty() && (name.starts_with("speedup") || name.starts_with("efficiency")))
    return missing_cell(row.doubt, notes);
  if (name.ends_with("-interval")) return interval_cell(*this, row, notes);
  const auto noted = std::ranges::find(kNotes, name, [](const auto& note) { return note.first; });
  if (noted == std::end(kNotes)) return value_cell(*this, row, notes);
  if (noted->second == scaling_note && !row.run->scaling && row.run->oversubscribed) return "-*";
  const std::string text = value_cell(*this, row, notes), words = noted->second(row);
  return words.empty() ? text : text + notes.mark(words);
}

std::optional<double> FieldValue::number() const {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* count = std::get_if<std::int64_t>(&value)) return static_cast<double>(*count);
  const auto* flag = std::get_if<bool>(&value);
  return flag == nullptr ? std::nullopt : std::optional(*flag ? 1.0 : 0.0);
}

bool is_condensed(std::span<const RunRow> rows) {
  return std::ranges::any_of(rows, [](const RunRow& row) { return row.repeated != nullptr; });
}

const Column* find_column(const std::string& name) {
  const auto find = [](auto matches) -> const Column* {
    const auto found = std::ranges::find_if(run_columns(), matches);
    return found == run_columns().end() ? nullptr : &*found;
  };
  const Column* column = find([&](const Column& c) { return c.name == name; });
  if (column == nullptr) {
    column = find([&](const Column& c) { return std::ranges::count(c.fields, name, &Field::key); });
  }
  // Headings of two lines are words that need the columns beside them.
  if (column == nullptr) {
    column = find([&](const Column& c) { return c.top.empty() && c.bottom == name; });
  }
  return column;
}

Columns table_columns(std::span<const RunRow> rows) {
  Columns keys, figures;
  for (const Column& column : run_columns()) {
    if (column.is(kAlways)) (column.is(kKey) ? keys : figures).push_back(&column);
  }
  for (const Companion& companion : kCompanions) {
    const auto place = std::ranges::find(figures, companion.behind, &Column::name);
    if (std::ranges::any_of(rows, [&](const RunRow& r) { return companion.applies(*r.run); })) {
      figures.insert(place + 1, known_column(companion.name));
    }
  }
  for (const Column& column : run_columns()) {
    if (column.is(kVarying) && varies(rows, column)) keys.push_back(&column);
  }
  if (options_vary(rows)) keys.push_back(known_column("options"));
  if (is_condensed(rows)) {
    keys.push_back(known_column("repetitions"));
    for (const Column*& column : figures) {
      const Column* interval = find_column(column->name + "-interval");
      if (interval != nullptr) column = interval;
    }
  } else if (std::ranges::any_of(rows, [](const RunRow& r) { return r.run->repetition > 0; })) {
    keys.push_back(known_column("repetition"));
  }
  if (from_several_files(rows)) keys.insert(keys.begin(), known_column("report"));
  keys.insert(keys.end(), figures.begin(), figures.end());
  return keys;
}

Columns all_columns() {
  Columns columns;
  for (const Column& column : run_columns()) columns.push_back(&column);
  return columns;
}

void sort_rows(std::vector<RunRow>& rows, const Column& column, bool descending) {
  std::vector<std::pair<Scalar, RunRow>> keyed;
  for (RunRow& row : rows) {
    Scalar value = column.fields.front().value(row).value;
    keyed.emplace_back(std::move(value), std::move(row));
  }
  std::ranges::stable_sort(keyed, [descending](const auto& a, const auto& b) {
    const bool a_missing = a.first.index() == 0, b_missing = b.first.index() == 0;
    if (a_missing || b_missing) return !a_missing && b_missing;
    return descending ? b.first < a.first : a.first < b.first;
  });
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = std::move(keyed[i].second);
}

std::string status_note(const Run& run) {
  if (run.status == Status::ok) return {};
  if (run.status == Status::diverged && run.error) return run.error->message;
  std::string why = run.reason;
  if (run.error) {
    const ErrorInfo& error = *run.error;
    why = fmt::format("{}{}{}: {}", error.rank ? fmt::format("rank {}, ", *error.rank) : "",
                      error.step ? fmt::format("step {}, ", *error.step) : "", error.kind,
                      error.message);
  }
  return why.empty() ? std::string(to_string(run.status))
                     : fmt::format("{}: {}", to_string(run.status), why);
}

bool is_bare(const Run& run) { return run.status != Status::ok && !run.step.time_s; }

bool has_cell_when_bare(const Column& column, const Run& run) {
  return column.is(kKey) || (column.name == "verified" && run.verification.status == "failed");
}

}  // namespace ddpbench::report
