// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RankSession: one rank of a run, from rendezvous to the end. It verifies, warms up, trains and
// evaluates (or serves, or computes the reference), and keeps its findings in the rank's channel.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "bench/measure/loss_progress.h"
#include "bench/rank/rank_result.h"
#include "bench/rank/rank_trainer.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// When a rank saves what training goes on from (--checkpoint), and how: between steps all ranks
// bring it to rank 0's host, and a thread of rank 0 writes the file meanwhile
// (checkpoint_saver.cpp).
class CheckpointSaver {
 public:
  // `trainer` outlives this. `await` and `meet` wait until all workers call them: before they save,
  // when some may be steps behind, and after it. `wait` waits a moment, which others see as
  // progress.
  CheckpointSaver(RankTrainer& trainer, std::function<void()> await, std::function<void()> meet,
                  std::function<void()> wait);
  // Waits for the file that is being written.
  ~CheckpointSaver() = default;
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Saves if it is time to. Called after each step that is not the last of its epoch, and after
  // each epoch. Returns the seconds that training waited. Collective. Throws ConfigError when the
  // file before could not be written.
  double after_step();
  double after_epoch();
  // Training is over: saves unless the last step was saved, and waits for the file.
  double finish();

  // Returns, on rank 0, the saves whose files are whole.
  const std::vector<report::CheckpointRow>& saved() const { return saved_; }

 private:
  bool is_on() const { return !trainer_.job().options.checkpoint.empty(); }
  bool is_due() const;
  double save();
  void end_writing();

  RankTrainer& trainer_;
  std::function<void()> await_, meet_, wait_;
  std::int64_t interval_;  // 0: epochs
  TrainingPosition position_;
  std::int64_t of_cycle_ = 0;  // steps since the last cycle that began with training or an epoch
  std::int64_t saved_steps_;   // when it saved last, or resumed
  bool replaces_;              // the file may be there already
  std::vector<report::CheckpointRow> saved_;
  bool is_writing_ = false;                     // as far as this rank knows
  std::future<report::CheckpointRow> writing_;  // of rank 0; waits in its destructor
};

class RankSession {
 public:
  // Collective over the run's ranks. `job`, `writer` and the targets of `inputs` outlive it.
  RankSession(const TrainingJob& job, const RankInputs& inputs, launch::RankWriter& writer);

  // Runs everything after set-up; nothing with --dry-run. Throws Error; the findings until then are
  // in the channel.
  void run();

 private:
  void run_role();
  void verify();
  void warm_up();
  std::int64_t warm_up_steps();
  bool warm_up_goes_on(std::int64_t done);
  void train();
  void train_epoch(int epoch);
  // Evaluates the test set, after the training that `row` tells of; --epochs=0 has none.
  void evaluate(EpochResult row);
  void save_weights();
  // After an epoch, over all workers: what counts and what was hit of the test set, in all and of
  // each class, and the number of workers whose loss has ceased to be finite.
  struct EpochSums {
    std::int64_t counted = 0, correct = 0, diverged = 0;
    report::ClassCounts classes = {};
  };
  bool training_ends(const EpochResult& epoch);
  EpochSums sum_over_workers(const EpochResult& epoch);
  void wait_for_workers(const std::string& when);  // a word for each wait
  void count_saving(double held_s);
  void await_slower_workers(const std::string& when);
  void wait_a_moment();
  void read_clock();
  void publish();
  void publish_result();

  const TrainingJob& job_;
  RankInputs inputs_;
  launch::RankWriter& writer_;
  RankResult result_;
  std::vector<double> warmup_step_s_;  // this rank's
  RankTrainer trainer_;
  std::optional<LossProgress> progress_;  // in training, with --observe=on
  int saves_ = 0;
  CheckpointSaver saver_;
  bool is_measured_ = false;  // the devices, for the last time
};

}  // namespace ddpbench::bench
