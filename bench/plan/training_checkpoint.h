// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Files of --checkpoint: safetensors with the tensors of gather_state (parallel/training_state.h),
// and as metadata how far training had come and what it trained. Any run of the same network, data,
// order, optimizer and global batch goes on from there, with any strategy. Its learning rate and
// its number of epochs may differ.
#pragma once

#include <string>
#include <vector>

#include "bench/plan/training_job.h"
#include "kernels/nn/model/model.h"
#include "kernels/nn/safetensors.h"

namespace ddpbench::bench {

// What a file says beside its tensors: format and version; network, data set, optimizer, global
// batch and seed, which a run that goes on must have in common; position, learning rate there and
// the schedule of that.
nn::Metadata checkpoint_metadata(const TrainingJob& job, const TrainingPosition& position);

// How far the file of --resume-training had come; of step 0 without that option. Reads the header
// alone. Throws ConfigError, in one sentence, where it is no such file, is damaged or of other
// training, and where nothing is left to train.
TrainingPosition resumed_position(const TrainingJob& job, const nn::ModelSpec& model);

// "; its learning rate was lr=0.1, and is lr=0.2 now" where the file of --resume-training,
// which was found to be fit, names another schedule than the job's; else nothing.
std::string other_schedule(const TrainingJob& job);

struct TrainingCheckpoint {
  std::vector<nn::NamedTensor> weights;  // nn::checkpoint_tensors, in any order
  std::vector<nn::NamedTensor> others;   // slots, and what ranks keep for themselves
};
// All of that file, by names without what wraps them. Throws as above, and where a value is not
// finite.
TrainingCheckpoint read_training_checkpoint(const TrainingJob& job, const nn::ModelSpec& model);

// Whether a file of --checkpoint that is there already is replaced: with --force, and where it is
// the one that training goes on from.
bool replaces_checkpoint(const RunOptions& options);

// Throws ConfigError where --checkpoint or --resume-training is given and replicas keep what no
// file has.
void check_checkpointing(const TrainingJob& job);

}  // namespace ddpbench::bench
