// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole runs with --sync-batch-norm: verified, timed in a phase of its own, traced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/normalized_network.h"
#include "tests/bench/program.h"
#include "tests/bench/trace_checker.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SyncedProgram : public testing::Test {
 protected:
  SyncedProgram() {
    test::use_normalized_network(program, 6, R"({"name": "drop", "type": "dropout", "p": 0.2},)");
  }
  json run(const std::string& strategy, std::vector<std::string> more,
           const std::string& sync = "on") {
    more.insert(more.end(), {"--force", "--sync-batch-norm=" + sync});
    const auto result = program.run(small_run(strategy, more));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    out = result.out;
    return program.report()["runs"][0];
  }
  Program program;
  std::string out;
};

// The reference is one device that takes the global batch at once, with plain batch norm and with
// the masks of the samples' places.
TEST_F(SyncedProgram, ComputesWhatOneDeviceComputesOfTheGlobalBatch) {
  for (const auto& [strategy, devices] :
       {std::pair("dp", "--gpus=2"), {"ddp", "--gpus=3"}, {"ps", "--gpus=3"}}) {
    const json verification =
        run(strategy, {devices, "--verify-steps=12", "--lr=0.05"})["verification"];
    EXPECT_EQ(verification["status"], "passed") << strategy << devices;
    EXPECT_LT(verification["tolerance"], 0.05);
    // The maps are equal bit for bit; only gradients are added up in another order.
    EXPECT_LT(verification["max_relative_error"], 1e-5);
  }
}

// Biases in front of a batch norm, and a batch norm in front of another: their gradients are
// nothing but rounding.
TEST_F(SyncedProgram, IsVerifiedWhereABatchNormTakesOutWhatParametersDo) {
  test::use_normalized_network(program, 6, R"({"name": "norm3", "type": "batch_norm2d"},
      {"name": "pool", "type": "max_pool2d", "kernel": 2},
      {"name": "norm4", "type": "batch_norm2d"},
      {"name": "conv3", "type": "conv2d", "out_channels": 4, "kernel": 1},
      {"name": "norm5", "type": "batch_norm2d"},)");
  for (const char* sync : {"on", "off"}) {
    for (const char* optimizer : {"--optimizer=sgd", "--optimizer=adam"}) {
      const json row =
          run("ddp", {"--gpus=3", "--batch-size=7", "--verify-steps=12", optimizer}, sync);
      EXPECT_EQ(row["verification"]["status"], "passed") << sync << optimizer;
    }
  }
}

TEST_F(SyncedProgram, TellsItsTimeInThePhasesTheTableAndTheTrace) {
  for (const char* strategy : {"dp", "ddp", "ps"}) {
    const json row = run(strategy, {"--gpus=2", "--trace=trace.json", "--trace-steps=3"});
    EXPECT_EQ(row["strategy_options"]["sync_batch_norm"], true);
    EXPECT_GT(row["phases"]["sync_batch_norm_s"], 0);
    EXPECT_GT(row["why"]["parts"]["sync_batch_norm_s"], 0);
    for (const json& device : row["devices"]) {
      if (device["role"] == "server") continue;
      EXPECT_GT(device["phases"]["sync_batch_norm_s"], 0) << device;
    }
    EXPECT_THAT(program.run({"show", "--full", "report.json"}).out, HasSubstr("sync ms"));
    const json trace = json::parse(program.read("trace.json"));
    EXPECT_THAT(test::trace_problems(trace), IsEmpty());
    // Two layers, forward and backward, on each device.
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(test::count_events(trace, rank, "phase", "sync_batch_norm"), 4 * 3) << strategy;
    }
  }
}

// Two layers of 6 channels, two doubles each, forward and backward, in both directions.
TEST_F(SyncedProgram, CountsItsExchanges) {
  const std::string alone = "--broadcast-buffers=off";
  const json with = run("ddp", {alone})["traffic"];
  ASSERT_EQ(program.run(small_run("ddp", {"--force", alone})).exit_code, 0);
  const json without = program.report()["runs"][0]["traffic"];
  EXPECT_EQ(with["messages"].get<int>() - without["messages"].get<int>(), 2 * 2 * 2);
  EXPECT_EQ(with["bytes"].get<int>() - without["bytes"].get<int>(), 2 * 2 * 2 * 6 * 2 * 8);
}

// Exchanged statistics make the state of all ranks equal.
TEST_F(SyncedProgram, SendsNoState) {
  const json row = run("ddp", {"--broadcast-buffers=on"});
  EXPECT_FALSE(row["strategy_options"].contains("broadcast_buffers"));
  EXPECT_FALSE(row["phases"].contains("replicate_s"));
  EXPECT_EQ(row["traffic"], run("ddp", {"--broadcast-buffers=off"})["traffic"]);
  EXPECT_EQ(row["verification"]["status"], "passed");
}

TEST_F(SyncedProgram, IsNothingOnOneDevice) {
  const json single = run("single", {});
  EXPECT_FALSE(single["strategy_options"].contains("sync_batch_norm"));
  EXPECT_FALSE(single["phases"].contains("sync_batch_norm_s"));
  EXPECT_THAT(out, Not(HasSubstr("sync ms")));
}

TEST_F(SyncedProgram, RefusesANetworkWithoutBatchNorm) {
  program.write("lenet.json", test::small_config({}));
  for (const char* strategy : {"single", "ddp"}) {
    const auto result = program.run(small_run(strategy, {"--sync-batch-norm=on"}));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("--sync-batch-norm=on: the network lenet5 has no "),
                                  HasSubstr("batch norm; leave the option out")));
  }
}

}  // namespace
}  // namespace ddpbench::bench
