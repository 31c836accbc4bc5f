// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The matrix of a sweep: the cells that the lists in options make, and their order and repetitions.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/options/options.h"

namespace ddpbench::bench {

// One cell of the comparison: one value of every option that may list several. A run and its ranks
// read these values from the cell alone.
struct RunCell {
  std::string strategy;  // "reference" for the run that the others are verified against
  int world_size = 1;    // training replicas
  int servers = 0;
  int repetition = 0;
  std::size_t entry = 0;  // index in Options::runs of its entry; stays with the supervisor
  std::int64_t batch_size = kDefaultBatchSize;  // per device, unless there is a global one
  std::int64_t global_batch_size = 0;           // of all devices (strong scaling); 0: none
  int accumulation_steps = 1;                   // passes of a step, of batch_size each
  int devices_per_process = 1;                  // of a strategy that groups ranks
  // A cell whose strategy ignores one of these has the first value of the option's list.
  int loader_workers = 1;
  bool overlap = true;
  double bucket_cap_mb = 25, first_bucket_mb = 1, unit_mb = 0;  // MiB; 0: chosen
  std::string accumulation_sync = "last";  // last | every: the passes that exchange gradients
  std::string ps_update = "server";
  int sync_every = 0;  // localsgd, as the next: steps of a cycle; 0: not chosen yet
  double outer_lr = 1, outer_momentum = 0;
  std::string ps_mode = "sync";  // sync | async
  int max_staleness = 4;         // async: steps ahead of the slowest worker
  int backup_workers = 0;        // sync: workers whose gradients are dropped
  // pipeline: parts of the layers, and passes of a step, which share its batch. 0: not chosen yet.
  int stages = 0, micro_batches = 0;
  std::string schedule = "1f1b";    // 1f1b | gpipe
  std::string all_reduce = "auto";  // auto | ring | direct
  std::string comm_hook = "none";   // how gradients travel
  std::string cuda_graph = "auto";  // auto | on | off

  bool is_strong() const { return global_batch_size > 0; }
  bool operator==(const RunCell&) const = default;
};

// Whether the run's devices all-reduce gradients or weights: --all-reduce takes effect.
bool all_reduces(const RunCell& cell);

// The devices that the layers of a replica are split over.
int stages_of(const RunCell& cell);
bool gathers_units(const RunCell& cell);  // and there is a device to gather from

// An option that may list several values. The axes below are all that a sweep knows of them.
struct SweepAxis {
  const char* option;   // "batch-size"
  const char* setting;  // in titles (report::value_words); empty: the run's name says it
  std::size_t (*listed)(const Options&);                      // how many values the option has
  void (*take)(RunCell&, const Options&, std::size_t index);  // takes one of them
  void (*give)(const RunCell&, Options&);  // makes the cell's value the only one of the list
  // Whether the cell's strategy, on its number of devices, uses the value.
  bool (*heeded)(const RunCell&);
  // Sets the value of a cell that ignores the option. The cell has at least one value.
  void (*ignore)(RunCell&, const Options&);
  std::string (*text)(const RunCell&);  // the value
  // A value that is not the default and that no strategy uses is refused (check_axes).
  bool refuses_alone = false;
  std::string needs;                // in words, beside a cell of this kind:
  bool (*where)(const RunCell&){};  // null without
};
// In the order in which they multiply: the last axis varies fastest.
std::span<const SweepAxis> sweep_axes();

// Every strategy with every device count and batch size, and with the values of the other options
// that it uses (SweepAxis::heeded). `single`, the baseline, is on one device and comes first.
// Repetitions are 0. --gpus=all counts as one device count while it is unresolved. With
// Options::runs: its entries' matrices, one after the other, without an earlier entry's cells.
std::vector<RunCell> plan_matrix(const Options& options);

// The options of the cell's run: those of its entry in Options::runs, or `options` without entries.
const Options& entry_options(const Options& options, const RunCell& cell);

// Throws ConfigError for a value of an axis that refuses to be given where no strategy uses it.
void check_axes(const Options& options);

// Throws ConfigError for an entry of Options::runs whose runs are all made for earlier entries.
void check_run_list(const Options& options);
// The entries of Options::runs that make none of these runs.
std::vector<std::size_t> entries_without_runs(const Options& options,
                                              const std::vector<RunCell>& cells);

// Throws ConfigError when several runs would write one file of --save-model or --checkpoint.
void check_saving(const Options& options);

// "ddp on 2 devices, batch 32, overlap off": the values that the lists of `options` vary, or what
// the entries of its runs differ in, and the repetition (from 1) when there may be several.
std::string run_title(const RunCell& cell, const Options& options);

// The kind of device that the backend of a run with so many servers connects.
std::string backend_device(const Options& options, int servers);

// One run of a sweep: the index of its cell, and the number of its repetition (from 0).
struct Slot {
  std::size_t cell = 0;
  int repetition = 0;
  auto operator<=>(const Slot&) const = default;
};

// Decides which run of a sweep comes next, and when there are enough, by the options of repetitions
// (--repetitions, --order, --until-ci and its limits). Pure: it reads no clock.
class SweepSchedule {
 public:
  // `cells`: the indices of the cells that take part. Their first run is `first_repetition`.
  SweepSchedule(std::vector<std::size_t> cells, const RunOptions& options, int first_repetition = 0)
      : cells_(std::move(cells)), options_(options), first_(first_repetition) {}

  // Returns the next run, `elapsed_s` after the sweep began; nothing when there are enough.
  // Interleaved rounds make every cell once, in an order that the seed, the round and the cells
  // give, so that a resumed sweep keeps it. A single round without --until-ci keeps the cells'
  // order: with one run per cell, there is nothing to protect from drift.
  std::optional<Slot> next(double elapsed_s) const;

  // Records the median step time of a run, or nothing when it failed: then precision adds no run to
  // its cell. Slots may be recorded before their turn (--resume).
  void record(Slot slot, std::optional<double> step_s) { results_[slot] = step_s; }

  // Cells and the number of runs that each still wants, as far as is known now: of those added for
  // precision, only the next. A cell without any is left out.
  std::map<std::size_t, int> runs_left(double elapsed_s) const;
  // The same, as many as there may be: if no cell becomes precise before --max-repetitions.
  std::map<std::size_t, int> most_runs_left(double elapsed_s) const;
  // The 95 % interval of the median over the cell's repetitions so far, relative to the median.
  // Nothing while they are too few.
  std::optional<double> interval_width(std::size_t cell) const;

 private:
  bool wanted(std::size_t cell, int repetition, double elapsed_s) const;
  bool failed(std::size_t cell) const;
  bool is_late(double elapsed_s) const {
    return options_.max_minutes > 0 && elapsed_s >= options_.max_minutes * 60;
  }
  std::optional<Slot> next_interleaved(double elapsed_s) const;
  std::vector<std::size_t> order_of(int round) const;

  std::vector<std::size_t> cells_;
  RunOptions options_;
  int first_;
  std::map<Slot, std::optional<double>> results_;
};

}  // namespace ddpbench::bench
