// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The variables of each launcher, and every way in which they can be wrong.
#include "parallel/launch/rank_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"

namespace ddpbench::launch {
namespace {

using testing::HasSubstr;

std::optional<RankEnvironment> read(const Variables& variables) {
  return read_rank_environment(variables);
}

std::string error_of(const Variables& variables) {
  try {
    read(variables);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Variables& own() {
  static const Variables variables = {{"RANK", "1"},
                                      {"LOCAL_RANK", "1"},
                                      {"WORLD_SIZE", "4"},
                                      {"MASTER_ADDR", "127.0.0.1"},
                                      {"MASTER_PORT", "4711"},
                                      {"DDPBENCH_LAUNCHER", "ddpbench"},
                                      {"DDPBENCH_JOB_SECRET", "hush"}};
  return variables;
}

const Variables& torchrun() {
  static const Variables variables = {{"RANK", "3"},
                                      {"LOCAL_RANK", "3"},
                                      {"WORLD_SIZE", "4"},
                                      {"LOCAL_WORLD_SIZE", "4"},
                                      {"MASTER_ADDR", "some-host"},
                                      {"MASTER_PORT", "29500"},
                                      {"TORCHELASTIC_RUN_ID", "none"},
                                      {"TORCHELASTIC_RESTART_COUNT", "0"},
                                      {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  return variables;
}

const Variables& open_mpi() {
  static const Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                      {"OMPI_COMM_WORLD_SIZE", "2"},
                                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                      {"PMIX_NAMESPACE", "372834305"}};
  return variables;
}

const Variables& slurm() {
  static const Variables variables = {{"SLURM_PROCID", "2"},
                                      {"SLURM_LOCALID", "2"},
                                      {"SLURM_NTASKS", "3"},
                                      {"SLURM_STEP_ID", "0"},
                                      {"SLURM_JOB_ID", "815"}};
  return variables;
}

TEST(RankEnvironment, IsAbsentWhenNoLauncherStartedTheProcess) {
  EXPECT_FALSE(read({}));
  EXPECT_FALSE(read({{"PATH", "/bin"}, {"MASTER_PORT", "1"}, {"RANK", ""}}));
}

TEST(RankEnvironment, ReadsWhatOurSupervisorSets) {
  const auto place = read(own());
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->world_size, 4);
  EXPECT_EQ(place->master_address, "127.0.0.1");
  EXPECT_EQ(place->master_port, 4711);
  EXPECT_EQ(place->launcher, "ddpbench");
  EXPECT_EQ(place->secret, "hush");
  EXPECT_FALSE(place->agent_store);
}

TEST(RankEnvironment, IgnoresTheAgentStoreOfATorchrunAroundOurSupervisor) {
  EXPECT_FALSE(read(with(own(), {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}))->agent_store);
}

TEST(RankEnvironment, ReadsWhatTorchrunSets) {
  const auto place = read(torchrun());
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, "torchrun");
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->world_size, 4);
  EXPECT_TRUE(place->agent_store);
  EXPECT_EQ(place->master_address, "some-host");
}

TEST(RankEnvironment, ReadsWhatOtherLaunchersSet) {
  const std::pair<const char*, Variables> launchers[] = {
      {"mpirun",
       {{"PMI_RANK", "3"}, {"PMI_LOCAL_RANK", "1"}, {"PMI_SIZE", "4"}, {"PMI_LOCAL_SIZE", "2"}}},
      {"mpirun",
       {{"PALS_RANKID", "3"}, {"PALS_LOCAL_RANKID", "1"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}},
  };
  for (const auto& [launcher, variables] : launchers) {
    const auto place = read(variables);
    ASSERT_TRUE(place) << launcher;
    EXPECT_EQ(place->launcher, launcher);
    EXPECT_EQ(place->rank, 3);
    EXPECT_EQ(place->world_size, 4);
  }
}

TEST(RankEnvironment, RefusesMarksOfLaunchersThatItDoesNotRead) {
  for (const char* name : {"PMIX_RANK", "PMI_ID", "PALS_RANKID", "MV2_COMM_WORLD_RANK",
                           "JSM_NAMESPACE_RANK", "FLUX_TASK_RANK"}) {
    EXPECT_THAT(error_of({{name, "1"}}), HasSubstr(std::string(name) + "=1 is of a launcher"));
  }
  EXPECT_FALSE(read({{"PMIX_RANK", "0"}, {"SLURM_PROCID", "0"}}));
}

TEST(RankEnvironment, NeedsALocalRankOfItsOwnSupervisorOnly) {
  EXPECT_EQ(read(without(torchrun(), "LOCAL_RANK"))->rank, 3);
  EXPECT_EQ(read(without(with(own(), {{"MASTER_ADDR", "other"}, {"DDPBENCH_LAUNCHER", ""}}),
                         "LOCAL_RANK"))
                ->world_size,
            4);
  EXPECT_EQ(read(without(slurm(), "SLURM_LOCALID"))->rank, 2);
  EXPECT_THAT(error_of(without(own(), "LOCAL_RANK")), HasSubstr("LOCAL_RANK is not set"));
}

TEST(RankEnvironment, KnowsThatThereIsALauncherThoughAVariableIsMissing) {
  EXPECT_FALSE(names_launcher({}));
  EXPECT_TRUE(names_launcher(without(own(), "LOCAL_RANK")));
}

TEST(RankEnvironment, NeverTakesWhatOthersKnowForASecret) {
  for (const Variables& variables : {torchrun(), open_mpi(), slurm()}) {
    EXPECT_EQ(read(variables)->secret, "");
  }
  EXPECT_EQ(read(with(torchrun(), {{"DDPBENCH_JOB_SECRET", "given"}}))->secret, "given");
}

TEST(RankEnvironment, NamesAJobAlikeOnAllItsRanksAndUnlikeOtherJobs) {
  const std::string job = read(torchrun())->job;
  EXPECT_EQ(read(with(torchrun(), {{"RANK", "0"}, {"LOCAL_RANK", "0"}}))->job, job);
  EXPECT_NE(read(with(torchrun(), {{"TORCHELASTIC_RUN_ID", "other"}}))->job, job);
  EXPECT_NE(read(with(torchrun(), {{"MASTER_PORT", "29501"}}))->job, job);
  EXPECT_NE(read(with(torchrun(), {{"TORCHELASTIC_RESTART_COUNT", "1"}}))->job, job);
}

TEST(RankEnvironment, ReadsVariablesThatWereSetByHand) {
  const auto place = read(without(own(), "DDPBENCH_LAUNCHER"));
  EXPECT_EQ(place->launcher, "environment");
  EXPECT_EQ(place->rank, 1);
}

TEST(RankEnvironment, ReadsWhatMpirunOfOpenMpiSets) {
  const auto place = read(open_mpi());
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, "mpirun");
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->world_size, 2);
  EXPECT_EQ(place->master_address, "127.0.0.1");
  EXPECT_NE(place->job, read(with(open_mpi(), {{"PMIX_NAMESPACE", "2"}}))->job);
}

TEST(RankEnvironment, ReadsWhatMpirunOfMpichSets) {
  const auto place = read({{"PMI_RANK", "0"},
                           {"PMI_SIZE", "2"},
                           {"MPI_LOCALRANKID", "0"},
                           {"MPI_LOCALNRANKS", "2"},
                           {"DDPBENCH_JOB_SECRET", "given"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, "mpirun");
  EXPECT_EQ(place->world_size, 2);
}

TEST(RankEnvironment, ReadsWhatSrunSets) {
  const auto place = read(slurm());
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, "srun");
  EXPECT_EQ(place->rank, 2);
  EXPECT_EQ(place->world_size, 3);
  EXPECT_EQ(place->several_hosts, "");
}

TEST(RankEnvironment, TellsTheStepsOfASlurmJobApart) {
  EXPECT_NE(read(with(slurm(), {{"SLURM_STEP_ID", "3"}}))->job,
            read(with(slurm(), {{"SLURM_STEP_ID", "4"}}))->job);
}

TEST(RankEnvironment, TakesTheStepsTasksBeforeThoseOfTheWholeSlurmJob) {
  EXPECT_EQ(read(with(slurm(), {{"SLURM_STEP_NUM_TASKS", "5"}}))->world_size, 5);
}

TEST(RankEnvironment, TakesABatchScriptOrAShellOfSlurmForTheUser) {
  EXPECT_FALSE(read(without(slurm(), "SLURM_STEP_ID")));
  EXPECT_FALSE(read(with(slurm(), {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}})));
}

TEST(RankEnvironment, PrefersMpirunsVariablesToThoseOfTheSrunBelowIt) {
  Variables both = slurm();
  both.insert(open_mpi().begin(), open_mpi().end());
  EXPECT_EQ(read(both)->launcher, "mpirun");
  EXPECT_EQ(read(both)->rank, 1);
}

TEST(RankEnvironment, NamesEachVariableThatIsMissing) {
  for (const char* const name : {"WORLD_SIZE", "MASTER_ADDR"}) {
    EXPECT_THAT(error_of(without(own(), name)), HasSubstr(std::string(name) + " "));
  }
  EXPECT_EQ(read(without(own(), "MASTER_PORT"))->master_port, 29500);
  EXPECT_THAT(error_of(without(own(), "RANK")), HasSubstr("RANK is not set"));
  EXPECT_THAT(error_of(without(open_mpi(), "OMPI_COMM_WORLD_SIZE")),
              HasSubstr("OMPI_COMM_WORLD_SIZE is not set"));
  EXPECT_THAT(error_of({{"WORLD_SIZE", "2"}}), HasSubstr("WORLD_SIZE is set but RANK is not"));
}

TEST(RankEnvironment, QuotesWhatIsNoNumber) {
  for (const char* const value : {"x", "1x", "-1", "1.5", "99999999999", " 1"}) {
    EXPECT_THAT(error_of(with(own(), {{"RANK", value}})),
                HasSubstr("RANK=" + std::string(value) + " is not a number"));
  }
}

TEST(RankEnvironment, RefusesContradictions) {
  EXPECT_THAT(error_of(with(own(), {{"RANK", "4"}})),
              HasSubstr("RANK=4 is not below WORLD_SIZE=4"));
  EXPECT_THAT(error_of(with(own(), {{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE=0"));
  EXPECT_THAT(error_of(with(own(), {{"MASTER_PORT", "65536"}})), HasSubstr("MASTER_PORT=65536"));
  EXPECT_THAT(error_of(with(own(), {{"MASTER_PORT", "0"}})), HasSubstr("MASTER_PORT=0"));
}

TEST(RankEnvironment, FindsRankZeroOnTheFirstOfSlurmsHosts) {
  const auto master = [](const char* nodes, const char* count = "2") {
    return read(with(slurm(), {{"SLURM_STEP_NUM_NODES", count}, {"SLURM_STEP_NODELIST", nodes}}))
        ->master_address;
  };
  EXPECT_EQ(master("n0,n1"), "n0");
  EXPECT_EQ(master("node[07-09,12],other"), "node07");
  EXPECT_EQ(master("rack[2,4]-node[1-3].cluster"), "rack2-node1.cluster");
  EXPECT_EQ(master("[broken"), "broken");
  EXPECT_EQ(master("node7", "1"), RankEnvironment().master_address);  // all on one
  const auto given = read(with(
      slurm(),
      {{"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NODELIST", "n[0-1]"}, {"MASTER_ADDR", "n1"}}));
  EXPECT_EQ(given->master_address, "n1");
  const auto arbitrary = read(with(slurm(), {{"SLURM_STEP_NUM_NODES", "2"},
                                             {"SLURM_STEP_NODELIST", "n[0-1]"},
                                             {"SLURM_DISTRIBUTION", "arbitrary"}}));
  EXPECT_FALSE(arbitrary->has_master_address);
}

TEST(RankEnvironment, SeesWhenRanksAreOnSeveralHosts) {
  EXPECT_EQ(read(torchrun())->several_hosts, "");
  EXPECT_EQ(read(with(torchrun(), {{"LOCAL_WORLD_SIZE", "2"}}))->several_hosts,
            "LOCAL_WORLD_SIZE=2 but WORLD_SIZE=4");
  EXPECT_EQ(read(with(slurm(), {{"SLURM_NNODES", "2"}}))->several_hosts, "SLURM_NNODES=2");
  EXPECT_EQ(
      read(with(slurm(), {{"SLURM_NNODES", "2"}, {"SLURM_STEP_NUM_NODES", "1"}}))->several_hosts,
      "");
}

}  // namespace
}  // namespace ddpbench::launch
