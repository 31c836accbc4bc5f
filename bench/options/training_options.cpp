// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The rows of the table of options that say how a network is trained: batches, optimizer, learning
// rate, length.
#include "bench/options/option_table.h"
#include "kernels/ops/optimizer.h"

namespace ddpbench::bench {
namespace {

constexpr double kMostSteps = 1e12, kMostSamples = 1 << 24;
constexpr ValueRule kBelowOne = {.maximum = 1, .below_maximum = true};
constexpr ValueRule kInsideOne = {.maximum = 1, .above_minimum = true, .below_maximum = true};

}  // namespace

Definitions training_options() {
  return {
      {"batch-size", kPerRun | kBare, "N,...", &Options::batch_sizes, between(1, kMostSamples),
       "Samples per device and step (weak scaling). Excludes --global-batch-size.",
       std::to_string(kDefaultBatchSize)},
      {"global-batch-size", kPerRun | kBare, "N,...", &Options::global_batch_sizes,
       between(1, kMostSamples),
       "Samples a step over all devices (strong scaling); every number of devices must divide it.",
       "none"},
      {"accumulation-steps", kPerRun | kPlannedByFit | kBare, "A,...", &Options::accumulation_steps,
       between(1, kMostAccumulationSteps),
       "Passes of the batch size that a step takes before it updates; their gradients accumulate."},
      {"accumulation-sync", kPerRun | kBare, "", &Options::accumulation_syncs,
       one_of({"last", "every"}),
       "ddp: average gradients after the last pass, as DistributedDataParallel does below no_sync, "
       "or after every one. dp reduces in every pass, ps pushes after the last."},
      {"sync-every", kPerRun | kBare, "H,...", &Options::sync_every, between(1, kMostTimes),
       "localsgd: average the weights after every H steps, and at the end of an epoch.",
       std::to_string(kDefaultCycle)},
      {"outer-lr", kPerRun | kPlannedByFit | kBare, "RATE,...", &Options::outer_lrs, positive(),
       "localsgd: learning rate of the update by how far replicas went from the last average "
       "(DiLoCo uses 0.7, with --outer-momentum=0.9). 1: take their average."},
      {"outer-momentum", kPerRun | kPlannedByFit | kBare, "M,...", &Options::outer_momenta,
       kBelowOne, "localsgd: Nesterov's momentum of that update."},
      {"epochs", 0, "N", &Options::epochs, between(0, kMostTimes),
       "Epochs to train, at most: --until-accuracy, --until-miou and a loss that is not finite end "
       "a run. 0: evaluate the weights of --load-model or --resume-training, or the start weights, "
       "and take no step."},
      {"steps", 0, "N", &Options::steps, between(1, kMostSteps),
       "End each epoch after N steps. Without --strategy, --gpus and --config: see --strategy.",
       "whole epochs"},
      {"until-accuracy", kNotOfTune, "PERCENT%", &Options::until_accuracy, above_zero_to(100),
       "End a run after the first epoch at whose end the accuracy over the whole test set is at "
       "least this. The report says how long training took until then, or that --epochs were too "
       "few.",
       "off"},
      {"until-miou", kNotOfTune, "PERCENT%", &Options::until_miou, above_zero_to(100),
       "The same with the mean intersection over union of the classes, of networks that predict a "
       "class for each pixel.",
       "off"},
      {"last-batch", kPlannedByFit, "", &Options::last_batch, one_of({"pad", "drop"}),
       "The incomplete batch at an epoch's end: filled by wrapping around, or left out."},
      {"seed", kPlannedByFit, "N", &Options::seed, anything(),
       "Seed of the random start weights, sample order and synthetic data."},
      {"optimizer", kPerRun | kPlannedByFit, "", &Options::optimizer,
       one_of({ops::kOptimizerNames.begin(), ops::kOptimizerNames.end()}),
       "What updates parameters: on replicas, or on the servers of ps.", "", "/optimizer/name"},
      {"lr", kPerRun, "RATE", &Options::lr, positive(), "Learning rate.",
       "0.01 (adam, adamw: 0.001)", "/optimizer/lr"},
  };
}

// The numbers of the optimizer, as PyTorch's classes have them, and how the learning rate changes
// from step to step, as its schedulers do it.
Definitions expert_training_options() {
  const OnlyWith sgd = {"optimizer", {"sgd"}}, adam = {"optimizer", {"adam", "adamw"}};
  const OnlyWith step = {"lr-schedule", {"step"}}, cosine = {"lr-schedule", {"cosine"}};
  return {
      {"momentum", kPerRun | kPlannedByFit, "M", &Options::momentum, kBelowOne, "sgd: momentum.",
       "", "/optimizer/momentum", sgd},
      {"nesterov", kPerRun, "", &Options::nesterov, anything(), "sgd: Nesterov's momentum.", "",
       "/optimizer/nesterov", sgd},
      {"beta1", kPerRun, "B", &Options::beta1, kBelowOne,
       "adam, adamw: how much of the mean of gradients each step keeps.", "", "/optimizer/beta1",
       adam},
      {"beta2", kPerRun, "B", &Options::beta2, kInsideOne,
       "adam, adamw: how much of the mean of squared gradients each step keeps.", "",
       "/optimizer/beta2", adam},
      {"epsilon", kPerRun, "E", &Options::epsilon, from(1e-30),
       "adam, adamw: what is added to the root that updates are divided by.", "",
       "/optimizer/epsilon", adam},
      {"weight-decay", kPerRun, "D", &Options::weight_decay, anything(),
       "sgd, adam: L2 penalty added to gradients. adamw: share of the weights, times the learning "
       "rate, that each step takes off.",
       "0 (adamw: 0.01)", "/optimizer/weight_decay"},
      {"lr-scaling", kPerRun, "", &Options::lr_scaling, one_of({"none", "linear"}),
       "linear multiplies the learning rate by the number of devices times accumulation steps."},
      {"lr-schedule", kPerRun, "", &Options::lr_schedule,
       one_of({ops::kScheduleNames.begin(), ops::kScheduleNames.end()}),
       "How the learning rate changes: not at all, by a factor every --lr-step-size steps, or "
       "along a cosine. Verification and timed training each begin it anew."},
      {"lr-step-size", kPerRun, "N", &Options::lr_step_size, between(1, kMostSteps),
       "step: every N steps the rate is multiplied by --lr-gamma.", "must be given", "", step},
      {"lr-gamma", kPerRun, "G", &Options::lr_gamma, above_zero_to(1),
       "step: what the rate is multiplied by.", "", "", step},
      {"lr-cosine-steps", kPerRun, "N", &Options::lr_cosine_steps, between(1, kMostSteps),
       "cosine: after N steps the rate is --lr-min; then it rises again, as PyTorch's does.",
       "all of the training after --lr-warmup-steps", "", cosine},
      {"lr-min", kPerRun, "RATE", &Options::lr_min, anything(), "cosine: the least rate.", "", "",
       cosine},
      {"lr-warmup-steps", kPerRun, "N", &Options::lr_warmup_steps, between(0, kMostTimes),
       "The first N steps of the training: the rate grows linearly, then the schedule begins. "
       "(--warmup-steps come before the training and are not timed.)"},
      {"lr-warmup-factor", kPerRun, "F", &Options::lr_warmup_factor, above_zero_to(1),
       "The share of the rate from which it grows in the first --lr-warmup-steps.", "", "",
       OnlyWith{"lr-warmup-steps"}},
  };
}

}  // namespace ddpbench::bench
