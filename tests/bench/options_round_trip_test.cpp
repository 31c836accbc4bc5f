// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Options travel to JSON and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/options/option_source.h"
#include "bench/options/options.h"
#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::HasSubstr;

void set_training(Options& options) {
  options.comm_hooks = {"topk:2.5", "none"};
  options.lr = 0.1;
  options.momentum = 0.3;
  options.nesterov = true;
  options.weight_decay = 1e-300;
  options.lr_scaling = "linear";
  options.last_batch = "drop";
  options.broadcast_buffers = false;
  options.sync_batch_norm = true;
  options.epochs = 7;
  options.steps = 123456789012;
}

// Every member differs from its default.
Options unusual() {
  Options options;
  set_training(options);
  options.strategies = {"ps", "single"};
  options.gpus = {3, 1};
  options.config_path = "c.json";
  options.device = "cpu";
  options.backend = "shm";
  options.global_batch_sizes = {96, 192};
  options.warmup_steps = 0;
  options.repetitions = 3;
  options.seed = 18446744073709551615U;
  options.threads_per_device = 2;
  options.accumulation_steps = {4, 1};
  options.accumulation_syncs = {"every", "last"};
  options.overlaps = {false, true};
  options.bucket_caps_mb = {1.0 / 3};
  options.first_buckets_mb = {0.125, 4};
  options.devices_per_process = {3, 1};
  options.server_counts = {2};
  options.ps_updates = {"worker"};
  options.ps_modes = {"async", "sync"};
  options.max_stalenesses = {0, 7};
  options.backup_workers = {1, 0};
  options.server_device = "cpu";
  options.cuda_graphs = {"off", "on"};
  options.warmup_max_steps = 50;
  options.order = "sequential";
  options.until_ci = Percent{2.5};
  options.until_miou = Percent{97.1};
  options.max_repetitions = 12;
  options.max_minutes = 1.5;
  options.confirm_repetitions = 20;
  options.least_gain = Percent{3};
  options.memory_per_device = "2GiB";
  options.format = "json";
  options.loader_workers = {0, 3};
  options.verify_steps = 0;
  options.observe = false;
  options.timeout_s = 0;
  options.json_path = "r.json";
  options.trace_steps = 7;
  options.resume_path = "old.json";
  options.force = true;
  options.load_model = "loaded.safetensors";
  options.data_dir = "data";
  options.interface = "eth0";
  options.injections = {parse_injection("kill:rank=1,step=5", ""), parse_injection("sum", "")};
  options.dry_run = true;
  options.quiet = true;
  options.model = "lenet5";
  options.dataset = "other";
  options.on_missing = "error";
  options.dataset_mean = PerChannel{{-1, 0, 0}};
  options.dataset_std = PerChannel{{0.7}};
  options.augment = true;
  options.crop = 65;
  return options;
}

// Those of another optimizer.
Options unusual_adam() {
  Options options;
  options.batch_sizes = {5};
  options.oversubscribe = true;
  options.loader_cost_us = 12.5;
  options.emulate_gil_us = 30;
  options.emulate_link = "1Gbit,50us";
  options.resume_training = "c.safetensors";
  options.lr_warmup_steps = 3;
  options.lr_warmup_factor = 0.25;
  options.optimizer = "adam";
  options.beta1 = 0.5;
  options.beta2 = 0.75;
  options.epsilon = 1e-3;
  options.lr_schedule = "cosine";
  options.lr_cosine_steps = 77;
  options.lr_min = 1e-4;
  return options;
}

Options through_text(const Options& options) {
  return options_from_json(nlohmann::json::parse(to_json(options).dump()));
}

TEST(OptionsJson, GivesBackWhatItWasMadeFrom) {
  const Options defaults;
  EXPECT_EQ(through_text(defaults), defaults);
  EXPECT_EQ(through_text(unusual()), unusual());
  EXPECT_EQ(through_text(unusual_adam()), unusual_adam());
  Options saving = unusual();
  saving.save_model = "saved.safetensors";
  saving.checkpoint = "c.safetensors";
  saving.checkpoint_every = "7";
  saving.batch_sizes = {5};
  saving.global_batch_sizes.clear();
  EXPECT_EQ(through_text(saving), saving);
}

TEST(OptionsJson, GivesBackAStepSchedule) {
  Options options;
  options.batch_sizes = {5};
  options.lr_schedule = "step";
  options.lr_step_size = 9;
  options.lr_gamma = 0.5;
  EXPECT_EQ(through_text(options), options);
}

TEST(OptionsJson, GivesBackTheListOfRuns) {
  const TemporaryDirectory folder;
  folder.write("list.json", R"({
    "strategy": "dp", "gpus": 2, "batch_size": 16, "optimizer": {"momentum": 0.5},
    "runs": [{}, {"global_batch_size": 64}, {"strategy": ["single", "ddp"], "gpus": "all"},
             {"optimizer": {"name": "adamw"}, "loader_workers": 4},
             {"comment": "the rate changes", "lr_schedule": "step", "lr_step_size": 7}]})");
  const Options options = options_of({"--config=list"}, {{}, {folder.path()}});
  ASSERT_EQ(options.runs.size(), 5u);
  EXPECT_EQ(through_text(options), options);
  const auto runs = nlohmann::json::parse(to_json(options).dump())["runs"];
  EXPECT_EQ(runs[0], nlohmann::json::object());
  EXPECT_EQ(runs[1], nlohmann::json({{"global_batch_size", 64}}));
  EXPECT_EQ(runs[3]["optimizer"], nlohmann::json({{"name", "adamw"},
                                                  {"lr", 0.001},
                                                  {"beta1", 0.9},
                                                  {"beta2", 0.999},
                                                  {"epsilon", 1e-8},
                                                  {"weight_decay", 0.01}}));
  EXPECT_EQ(options.runs[3].momentum, Options{}.momentum);
}

TEST(OptionsJson, KeepsAllGpusUntilTheyAreCounted) {
  Options options = options_of({"--gpus=all"});
  EXPECT_EQ(through_text(options), options);
  EXPECT_EQ(to_json(options)["gpus"], "all");
  options.gpus = {2};
  EXPECT_EQ(to_json(options)["gpus"], nlohmann::json({2}));
}

TEST(OptionsJson, LeavesOutWhatIsNotSet) {
  const auto json = to_json(options_of({}));
  EXPECT_FALSE(json.contains("steps"));
  EXPECT_FALSE(json.contains("global_batch_size"));
  EXPECT_FALSE(json.contains("save_model"));
  EXPECT_EQ(json["batch_size"], kDefaultBatchSize);
  EXPECT_EQ(json["optimizer"]["lr"], 0.01);
}

TEST(OptionsJson, IsAConfigurationFileOnceTheConfigurationsPathIsTakenOut) {
  const TemporaryDirectory folder;
  Options expected = unusual();
  auto json = to_json(expected);
  json.erase("config");
  json.erase("resume");
  json.erase("memory_per_device");
  json.erase("format");
  expected.resume_path.clear();
  expected.memory_per_device.clear();
  expected.format.clear();
  expected.config_path = folder.write("again.json", json.dump());
  EXPECT_EQ(options_of({"--config=again"}, {{}, {folder.path()}}), expected);
}

TEST(OptionsJson, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(message_of([] {
                options_from_json({{"epoch", 1}});
              }),
              HasSubstr("/epoch: unknown key. Did you mean '/epochs'?"));
}

}  // namespace
}  // namespace ddpbench::bench
