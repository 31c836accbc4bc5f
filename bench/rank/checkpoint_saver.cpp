// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "bench/plan/training_checkpoint.h"
#include "bench/rank/rank_session.h"
#include "kernels/nn/safetensors.h"
#include "kernels/nn/weights.h"
#include "kernels/runtime/cpu_topology.h"
#include "parallel/training_state.h"

namespace ddpbench::bench {
namespace {

// Training that diverged replaces nothing: the row then has no bytes.
report::CheckpointRow write(const std::string& path, const std::vector<nn::NamedTensor>& tensors,
                            const nn::Metadata& metadata, bool replaces,
                            report::CheckpointRow row) {
  if (!nn::find_not_finite(tensors).empty()) return row;
  const double begin = steady_s();
  try {
    nn::write_safetensors(path, tensors, replaces, metadata);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("--checkpoint: {}", error.what()));
  }
  row.write_s = steady_s() - begin;
  std::error_code gone;
  row.bytes = std::filesystem::file_size(path, gone);
  return row;
}

}  // namespace

CheckpointSaver::CheckpointSaver(RankTrainer& trainer, std::function<void()> await,
                                 std::function<void()> meet, std::function<void()> wait)
    : trainer_(trainer),
      await_(std::move(await)),
      meet_(std::move(meet)),
      wait_(std::move(wait)),
      interval_(checkpoint_interval(trainer.job().options)),
      position_(trainer.job().resumed),
      saved_steps_(position_.steps),
      replaces_(replaces_checkpoint(trainer.job().options)) {}

bool CheckpointSaver::is_due() const {
  return is_on() && interval_ > 0 && position_.steps / interval_ > saved_steps_ / interval_;
}

double CheckpointSaver::after_step() {
  ++position_.steps;
  ++position_.step;
  ++of_cycle_;
  if (position_.step == trainer_.job().steps_per_epoch) return 0;  // after_epoch follows
  // Within a cycle replicas differ.
  return is_due() && of_cycle_ % cycle_steps(trainer_.job()) == 0 ? save() : 0;
}

double CheckpointSaver::after_epoch() {
  ++position_.epoch;
  position_.step = of_cycle_ = 0;
  return is_due() || (is_on() && interval_ == 0) ? save() : 0;
}

double CheckpointSaver::finish() {
  double waited_s = is_on() && saved_steps_ < position_.steps ? save() : 0;
  const double begin = trainer_.now_s();
  end_writing();
  return waited_s + trainer_.now_s() - begin;
}

double CheckpointSaver::save() {
  trainer_.recorder().finish_steps();  // on GPUs some are queued, which are no part of saving
  await_();
  const double begin = trainer_.now_s();
  end_writing();
  std::vector<nn::NamedTensor> tensors = gather_state(trainer_.strategy(), trainer_.world());
  // A rank that went on alone would wait in its next step, which would be longer by that.
  meet_();
  saved_steps_ = position_.steps;
  is_writing_ = true;
  const double held_s = trainer_.now_s() - begin;
  if (trainer_.inputs().rank != 0) return held_s;
  const Unpinned unpinned;  // else the thread takes its time from this rank's core
  writing_ = std::async(std::launch::async,
                        [path = trainer_.job().options.checkpoint,
                         metadata = checkpoint_metadata(trainer_.job(), position_),
                         tensors = std::move(tensors), replaces = std::exchange(replaces_, true),
                         row = report::CheckpointRow{.step = position_.steps, .held_s = held_s}] {
                          return write(path, tensors, metadata, replaces, row);
                        });
  return held_s;
}

// A call of the communicator may wait for --timeout at most, and the disk may take longer.
void CheckpointSaver::end_writing() {
  if (!std::exchange(is_writing_, false)) return;
  const std::shared_ptr<comm::Store>& store = trainer_.inputs().store;
  const std::string key = fmt::format("written/{}", saved_steps_);
  const auto is_written = [&] {
    return !writing_.valid()
               ? store->add(key, 0) > 0
               : writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  while (!is_written()) wait_();
  if (!writing_.valid()) return;
  if (store != nullptr) store->add(key, 1);
  const report::CheckpointRow row = writing_.get();
  if (row.bytes > 0) saved_.push_back(row);
}

}  // namespace ddpbench::bench
