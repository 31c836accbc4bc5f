// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Resolves --device, --precision, --backend and --gpus on made-up hosts.
#include <gmock/gmock.h>

#include "base/error.h"
#include "bench/plan/run_plan.h"
#include "bench/run/session.h"
#include "parallel/comm_backends.h"

namespace ddpbench::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

HostDevices host_with_gpus(int gpus, int compute_capability = 90) {
  HostDevices host;
  host.cpu.cores = {0, 1, 2, 3};
  for (int i = 0; i < gpus; ++i) {
    host.cuda.devices.push_back({.ordinal = i,
                                 .name = "Imaginary GPU",
                                 .uuid = "",
                                 .pci_bus_id = "",
                                 .compute_capability = compute_capability});
  }
  if (gpus == 0) host.cuda.reason = "there is no NVIDIA driver";
  return host;
}

std::string refusal(const Options& options, const HostDevices& host) {
  try {
    choose_device(options, host);
  } catch (const UnavailableError& error) {
    return error.what();
  }
  return "not refused";
}

TrainingJob job_of(const std::string& strategy, int world_size, int gpus, Options options = {}) {
  options.device = "cuda";
  options.strategies = {strategy};
  options.batch_sizes = {8};
  const RunCell cell{.strategy = strategy,
                     .world_size = world_size,
                     .servers = strategy == "ps" ? 1 : 0,
                     .batch_size = 8,
                     .ps_mode = options.ps_modes.front(),
                     .backup_workers = options.backup_workers.front(),
                     .cuda_graph = options.cuda_graphs.front()};
  data::DatasetInfo dataset;
  dataset.train_samples = 1000;
  return make_training_job(options, cell, dataset, {"model.json", "net", "1234"},
                           host_with_gpus(gpus));
}

TEST(DeviceChoice, TakesCudaWhenAGpuIsThereAndSaysSo) {
  const DeviceChoice choice = choose_device({}, host_with_gpus(2));
  EXPECT_EQ(choice.device, "cuda");
  EXPECT_EQ(choice.precision, "tf32");
  EXPECT_THAT(choice.note, HasSubstr("2 GPUs, the first is Imaginary GPU"));
}

// The comparison that is made where no options choose one is of two devices.
TEST(DeviceChoice, LeavesOutMoreGpusThanThereAreWhereNobodyAskedForThem) {
  Options options;
  options.gpus = {1, 2};
  Options asked = options, sharing = options, on_cpu = options;
  EXPECT_THAT(resolve_devices(options, host_with_gpus(1)),
              HasSubstr("\ncompares on 1 GPU, as there are no more here"));
  EXPECT_THAT(options.gpus, ElementsAre(1));
  asked.gpus_given.is_set = true;
  sharing.oversubscribe = true;
  for (Options* kept : {&asked, &sharing}) resolve_devices(*kept, host_with_gpus(1));
  EXPECT_THAT(asked.gpus, ElementsAre(1, 2));
  EXPECT_THAT(sharing.gpus, ElementsAre(1, 2));
  HostDevices one_core = host_with_gpus(0);
  one_core.cpu.cores = {0};
  resolve_devices(on_cpu, one_core);
  EXPECT_THAT(on_cpu.gpus, ElementsAre(1, 2));
}

TEST(DeviceChoice, TakesTheCpuWithoutAGpuAndSaysWhy) {
  const DeviceChoice choice = choose_device({}, host_with_gpus(0));
  EXPECT_EQ(choice.device, "cpu");
  EXPECT_EQ(choice.precision, "fp32");
  EXPECT_THAT(choice.note, HasSubstr("there is no NVIDIA driver"));
}

TEST(DeviceChoice, SaysThatAContainerHasTooLittleSharedMemoryForNccl) {
  HostDevices host = host_with_gpus(4);
  host.shared_memory_bytes = std::uintmax_t{64} << 20;  // Docker's
  Options options;
  options.device = "cuda";
  options.gpus = {1, 3};
  EXPECT_EQ(choose_device(options, host).note,
            "warning: /dev/shm has 64 MiB free, and 3 ranks may need 64 MiB each, so that NCCL may "
            "fail: start the container with --shm-size=1g");
  EXPECT_THAT(choose_kind("cuda", "auto", host).note, HasSubstr("4 ranks"));
  options.gpus = {1};
  EXPECT_EQ(choose_device(options, host).note, "");
  options.gpus = {2};
  options.backend = "shm";  // it shares memory without a name
  EXPECT_EQ(choose_device(options, host).note, "");
  options.backend = "nccl";
  host.shared_memory_bytes = std::uintmax_t{128} << 20;
  EXPECT_EQ(choose_device(options, host).note, "");
}

TEST(SharedMemory, SaysWhatMpiDoesWithTooLittle) {
  EXPECT_THAT(shared_memory_warning("mpi", 8, std::uintmax_t{63} << 20),
              HasSubstr("/dev/shm has 63 MiB free, and 8 ranks may need 8 MiB each, so that MPI"));
  EXPECT_EQ(shared_memory_warning("mpi", 8, std::uintmax_t{64} << 20), "");
  EXPECT_EQ(shared_memory_warning("gloo", 8, 0), "");
}

TEST(EmulatedLink, IsRefusedWhereNothingEmulatesIt) {
  const std::string link = "1Gbit,50us";
  check_link(link, "shm", "cpu");
  check_link(link, "none", "cpu");
  check_link("", "gloo", "cpu");
  const auto refused = [&](const char* backend, const char* device) -> std::string {
    try {
      check_link(link, backend, device);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "not refused";
  };
  EXPECT_EQ(refused("gloo", "cpu"),
            "--emulate-link=1Gbit,50us: gloo between cpu devices emulates no link; use "
            "--backend=shm --device=cpu on one host, or leave it out");
  EXPECT_THAT(refused("shm", "cuda"), HasSubstr("shm between cuda devices"));
  EXPECT_THAT(refused("shm+gloo", "cpu"), HasSubstr("shm+gloo between"));
}

TEST(DeviceChoice, NeverTakesTheCpuForCuda) {
  Options options;
  options.device = "cuda";
  EXPECT_THAT(refusal(options, host_with_gpus(0)),
              HasSubstr("--device=cuda: there is no NVIDIA driver"));
  EXPECT_EQ(choose_device(options, host_with_gpus(1)).note, "");
}

TEST(DeviceChoice, RefusesPrecisionsThatTheDeviceLacks) {
  Options options;
  options.precision = "bf16";
  EXPECT_EQ(choose_device(options, host_with_gpus(0)).precision, "bf16");
  HostDevices old = host_with_gpus(0);
  old.no_cpu_bf16 = "the processor has neither avx512_bf16 nor AMX";
  EXPECT_THAT(refusal(options, old),
              AllOf(HasSubstr("--precision=bf16"), HasSubstr("neither avx512_bf16 nor AMX")));
  EXPECT_THAT(refusal(options, host_with_gpus(1, 75)), HasSubstr("no tensor cores"));
  EXPECT_EQ(choose_device(options, host_with_gpus(1, 80)).precision, "bf16");
  options.precision = "tf32";
  EXPECT_THAT(refusal(options, host_with_gpus(0)),
              HasSubstr("CPU devices compute in fp32 or bf16"));
  options.precision = "fp16";
  EXPECT_THAT(refusal(options, host_with_gpus(0)),
              AllOf(HasSubstr("--precision=fp16: CPU devices compute in fp32 or bf16"),
                    HasSubstr("only GPUs have operations in fp16")));
  EXPECT_EQ(choose_device(options, host_with_gpus(1, 75)).precision, "fp16");
  EXPECT_THAT(refusal(options, host_with_gpus(1, 61)), HasSubstr("no tensor cores"));
  options.precision = "auto";
  EXPECT_EQ(choose_device(options, old).precision, "fp32");
  EXPECT_EQ(choose_device(options, host_with_gpus(1, 75)).precision, "fp32");
}

TEST(DeviceChoice, RefusesNcclBetweenCpus) {
  Options options;
  options.backend = "nccl";
  EXPECT_THAT(refusal(options, host_with_gpus(0)), HasSubstr("--backend=nccl"));
}

TEST(DeviceChoice, KeepsDataOnDevicesThatHaveMemoryOfTheirOwnOnly) {
  Options options;
  options.residency = "device";
  EXPECT_THAT(refusal(options, host_with_gpus(0)), HasSubstr("--residency=device"));
  EXPECT_EQ(choose_device(options, host_with_gpus(1)).device, "cuda");
}

TEST(DeviceChoice, RecordsStepsOnlyWhereThatCanBe) {
  Options options;
  options.cuda_graphs = {"on"};
  EXPECT_THAT(refusal(options, host_with_gpus(0)), HasSubstr("--cuda-graph=on"));
  EXPECT_EQ(choose_device(options, host_with_gpus(1)).device, "cuda");
  EXPECT_NO_THROW(job_of("ddp", 2, 2, options));
  EXPECT_THROW(job_of("dp", 2, 2, options), UnavailableError);
  EXPECT_THROW(job_of("ps", 1, 2, options), UnavailableError);
  options.injections.emplace_back();
  EXPECT_THROW(job_of("ddp", 2, 2, options), UnavailableError);
}

TEST(GpuPlacement, GivesEveryDeviceAGpuOfItsOwn) {
  const TrainingJob job = job_of("ddp", 2, 4);
  EXPECT_THAT(job.gpus, ElementsAre(0, 1));
  EXPECT_EQ(job.backend, "nccl");
  EXPECT_FALSE(job.oversubscribed);
}

TEST(GpuPlacement, RefusesMoreDevicesThanGpus) {
  try {
    job_of("ddp", 3, 2);
    FAIL() << "3 devices on 2 GPUs";
  } catch (const UnavailableError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--gpus=3: there are 2 GPUs here; use fewer"));
  }
}

TEST(CommonBackend, IsTheOneOfAllThatMoveData) {
  using Backends = std::vector<std::string>;
  EXPECT_EQ(common_backend(Backends{"shm", "none", "shm"}), "shm");
  EXPECT_EQ(common_backend(Backends{"nccl", "shm"}), "auto");
  EXPECT_EQ(common_backend(Backends{"none"}), "auto");
}

TEST(BackendChoice, RefusesABackendOfOtherDevices) {
  Options options;
  options.backend = "nccl";
  options.device = "cpu";
  EXPECT_THAT(refusal(options, host_with_gpus(1)), HasSubstr("it connects GPUs"));
}

std::string all_reduce_of(const char* backend, const char* wanted, int ranks) {
  return all_reduce_name(comm_backend(backend), wanted, ranks);
}

TEST(AllReduceChoice, SaysWhatAutoTakesAndWhatOfALibraryRuns) {
  EXPECT_EQ(all_reduce_of("shm", "auto", 2), "direct");
  EXPECT_EQ(all_reduce_of("shm", "auto", 17), "ring");
  EXPECT_EQ(all_reduce_of("shm", "ring", 2), "ring");
  EXPECT_EQ(all_reduce_of("gloo", "auto", 2), "gloo::allreduce (ring)");
  EXPECT_EQ(all_reduce_of("mpi", "auto", 3), "MPI_Iallreduce");
  EXPECT_EQ(all_reduce_of("nccl", "auto", 2), "");  // nccl does not tell
}

TEST(AllReduceChoice, RefusesWhatABackendHasNot) {
  EXPECT_THROW(all_reduce_of("nccl", "ring", 2), ConfigError);
  EXPECT_THROW(all_reduce_of("nccl", "direct", 2), ConfigError);
  EXPECT_THROW(all_reduce_of("gloo", "ring", 2), ConfigError);
  EXPECT_THROW(all_reduce_of("mpi", "direct", 2), ConfigError);
}

TEST(GpuPlacement, SharesGpusWhenAskedToAndMarksIt) {
  Options options;
  options.oversubscribe = true;
  const TrainingJob job = job_of("ddp", 3, 2, options);
  EXPECT_THAT(job.gpus, ElementsAre(0, 1, 0));
  EXPECT_EQ(job.backend, "shm");  // NCCL refuses ranks that share a GPU
  EXPECT_TRUE(job.oversubscribed);
}

TEST(GpuPlacement, RefusesNcclBetweenThreadsThatShareAGpu) {
  Options options;
  options.oversubscribe = true;
  options.backend = "nccl";
  EXPECT_THROW(job_of("dp", 3, 2, options), UnavailableError);
  EXPECT_EQ(job_of("ddp", 3, 2, options).backend, "nccl");
}

TEST(GpuPlacement, PutsServersOnGpusToo) {
  const TrainingJob job = job_of("ps", 2, 2);
  EXPECT_THAT(job.gpus, ElementsAre(0, 1, 0));
  EXPECT_TRUE(job.oversubscribed);
}

Options cpu_servers() {
  Options options;
  options.server_device = "cpu";
  return options;
}

TEST(ServerDevice, IsTheWorkersUnlessAskedFor) {
  Options options;
  EXPECT_EQ(choose_device(options, host_with_gpus(1)).server_device, "cuda");
  EXPECT_EQ(choose_device(options, host_with_gpus(0)).server_device, "cpu");
  EXPECT_EQ(choose_device(cpu_servers(), host_with_gpus(1)).server_device, "cpu");
  options.server_device = "cuda";
  EXPECT_THROW(choose_device(options, host_with_gpus(0)), ConfigError);
}

TEST(ServerDevice, OnTheCpuTakesCoresAndNoGpu) {
  const TrainingJob job = job_of("ps", 2, 2, cpu_servers());
  EXPECT_THAT(job.gpus, ElementsAre(0, 1));
  EXPECT_THAT(job.cores, ElementsAre(ElementsAre(), ElementsAre(), ElementsAre(0)));
  EXPECT_FALSE(job.oversubscribed);
  EXPECT_EQ(job.backend, "shm");
  EXPECT_TRUE(job.is_on_gpu(1));
  EXPECT_FALSE(job.is_on_gpu(2));
}

TEST(ServerDevice, IsOversubscribedByItsOwnThreadsOrBySharedGpus) {
  Options options = cpu_servers();
  options.threads_per_device = 4;  // as many as cores
  EXPECT_FALSE(job_of("ps", 2, 2, options).oversubscribed);
  options.threads_per_device = 5;
  EXPECT_TRUE(job_of("ps", 2, 2, options).oversubscribed);
  EXPECT_FALSE(job_of("ddp", 2, 2, options).oversubscribed);  // it has none
  options.threads_per_device = 1;
  EXPECT_THROW(job_of("ps", 3, 2, options), UnavailableError);
  options.oversubscribe = true;
  EXPECT_TRUE(job_of("ps", 3, 2, options).oversubscribed);
}

TEST(ServerDevice, OnTheCpuIsBeyondNccl) {
  Options options = cpu_servers();
  options.backend = "nccl";
  EXPECT_THROW(job_of("ps", 1, 2, options), ConfigError);
  EXPECT_EQ(job_of("ddp", 2, 2, options).backend, "nccl");
}

TEST(GpuPlacement, NeedsNoBackendForOneDevice) {
  EXPECT_EQ(job_of("single", 1, 1).backend, "none");
  EXPECT_EQ(job_of("dp", 2, 2).backend, "nccl");
}

TEST(Expectation, CountsVerificationWarmUpTrainingAndEvaluation) {
  TrainingJob job;
  job.cell = {.strategy = "ddp", .world_size = 2};
  job.per_device_batch = 50;
  job.steps_per_epoch = 100;
  job.dataset.test_samples = 3000;  // 30 batches forward: 10 steps
  job.options.epochs = 2;
  job.options.verify_steps = 3;
  job.options.warmup_steps = 10;  // 20 if the step times vary
  EXPECT_NEAR(expected_s(job, 0.01), 0.01 * (3 + 20 + 2 * (100 + 10)), 1e-9);
  job.options.warmup_max_steps = 10;
  job.cell.strategy = "single";  // is not verified
  EXPECT_NEAR(expected_s(job, 0.01), 0.01 * (10 + 2 * (100 + 10)), 1e-9);
}

// Whether its warm-up is steady is told by ten cycles.
TEST(Expectation, CountsWholeCyclesOfAWarmUp) {
  TrainingJob job;
  job.cell = {.strategy = "localsgd", .world_size = 2};
  job.cell.sync_every = 8;
  job.per_device_batch = 50;
  job.steps_per_epoch = 100;
  job.options.epochs = 1;
  job.options.verify_steps = 0;
  job.options.warmup_steps = 10;
  EXPECT_NEAR(expected_s(job, 0.01), 0.01 * (80 + 100), 1e-9);
  job.options.warmup_max_steps = 10;
  EXPECT_NEAR(expected_s(job, 0.01), 0.01 * (16 + 100), 1e-9);
}

TEST(Expectation, KnowsThatDevicesTakeTurns) {
  TrainingJob job;
  job.cell = {.strategy = "ps", .world_size = 2, .servers = 1};
  EXPECT_EQ(turns(job, host_with_gpus(0)), 1);  // 4 cores
  job.options.threads_per_device = 2;
  EXPECT_EQ(turns(job, host_with_gpus(0)), 1.5);
  job.device = "cuda";
  EXPECT_EQ(turns(job, host_with_gpus(2)), 1.5);
}

TEST(Crowd, IsRefusedUnlessAskedFor) {
  TrainingJob job;
  job.cell = {.strategy = "ddp", .world_size = 64};
  refuse_crowd(job, host_with_gpus(0));
  job.cell.world_size = 1000;
  try {
    refuse_crowd(job, host_with_gpus(0));
    ADD_FAILURE() << "not refused";
  } catch (const UnavailableError& error) {
    EXPECT_STREQ(error.what(),
                 "--gpus=1000: there are 4 cores here, for at most 64 devices; use fewer, or give "
                 "--oversubscribe");
  }
  job.options.oversubscribe = true;
  refuse_crowd(job, host_with_gpus(0));
}

}  // namespace
}  // namespace ddpbench::bench
