// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_world.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "bench/host/environment_capture.h"
#include "bench/host/host_devices.h"
#include "bench/host/terminal.h"
#include "bench/joined/end_watch.h"
#include "bench/joined/joined_devices.h"
#include "bench/joined/joined_hosts.h"
#include "bench/joined/joined_plan.h"
#include "bench/joined/joined_rank.h"
#include "bench/joined/joined_report.h"
#include "bench/joined/joined_shares.h"
#include "bench/plan/data_places.h"
#include "bench/plan/run_plan.h"
#include "bench/plan/sweep_plan.h"
#include "bench/plan/training_checkpoint.h"
#include "bench/rank/rank_devices.h"
#include "bench/rank/rank_session.h"
#include "bench/run/launch_run.h"
#include "bench/run/run_records.h"
#include "kernels/nn/model/model_reader.h"
#include "parallel/comm_backends.h"
#include "reports/metrics/conditions.h"

namespace ddpbench::bench {
namespace {

class JoinedWorld final : public JoinedRank {
 public:
  JoinedWorld(Options options, const launch::RankEnvironment& environment,
              const std::vector<std::string>& arguments, ReportReader reader)
      : JoinedRank(std::move(options), environment),
        report_(
            arguments, reader, environment.launcher,
            {.fill_in = [this](report::Report& report,
                               const launch::SuperviseResult& result) { fill_in(report, result); },
             .complete_head = {},
             .trace =
                 [this] {
                   return std::pair<const TrainingJob&, report::Trace>(
                       job_, trace_of_run(job_, channels()));
                 }}),
        progress_(Progress::style_for_stdout(this->options().quiet || !is_first())) {}

 private:
  PlanValues asked() const override { return option_values(options(), environment()); }
  int workers() const override { return environment().world_size - cpu_servers(options()); }
  void plan(const HostDevices& host) override;
  launch::ChannelLayout layout() const override { return channel_layout(job_, model_); }
  PlanValues planned() const override { return job_values(job_, layout()); }
  std::vector<int> cores() const override {
    return job_.cores.at(static_cast<std::size_t>(environment().rank));
  }
  int work() override;
  JoinedReport& report() override { return report_; }

  void fill_in(report::Report& report, const launch::SuperviseResult& result);
  void place_on_cores(const CpuTopology& topology);
  void share_inputs();
  RankInputs inputs();
  void say_begin() const;
  int train();

  std::unique_ptr<data::DatasetSource> source_;
  nn::ModelSpec model_;
  std::string weights_note_;  // how the names of --load-model are read; empty: as they are
  std::string dataset_note_;  // why the data set is synthetic; empty: it was asked for, or is not
  TrainingJob job_;
  JoinedReport report_;
  std::optional<report::MachineSnapshot> before_;  // training: the machine's load counts from here
  double startup_s_ = 0;                           // until this rank was set up
  Progress progress_;
  SharedMemory dataset_;
  std::optional<ReferenceWeights> reference_;
};

int JoinedWorld::work() {
  if (!is_alone() && job_.gpus.empty()) job_.oversubscribed = shares_cores();
  prepare_engine(job_, options().interface, environment(), peers().hosts());
  share_inputs();
  finish_engine(job_.backend, environment(), engine_limits());
  return train();
}

void JoinedWorld::plan(const HostDevices& host) {
  const DeviceChoice choice = choose_device(options(), host);
  options().device = choice.device;
  options().server_device = choice.server_device;
  options().precision = choice.precision;
  const RunCell cell =
      joined_cell(options(), environment().world_size, device_count(host, choice.device));
  std::string& backend = options().backend;
  if (peers().hosts().are_several()) {
    backend = backend_over_hosts(backend, backend_device(options(), cell.servers), peers().hosts());
  }
  if (options().device == "cpu") backend = choose_backend(backend, "cpu", false);
  const std::string model_path = find_model(options().model);
  model_ = nn::load_model_file(model_path, options().crop);
  dataset_note_ = resolve_dataset(options(), model_);
  source_ = open_data(options(), model_);
  const data::DatasetInfo dataset = describe_data(*source_, options());
  check_dataset_fits(model_, dataset, model_path);
  check_data_options(options(), dataset);
  weights_note_ = check_checkpoint(options(), model_);
  job_ = make_training_job(options(), cell, dataset, network_of(model_, model_path), host);
  job_.resumed = resumed_position(job_, model_);
  if (own_gpus()) give_own_gpus(*own_gpus(), job_.gpus);
  if (backend == "auto") backend = common_backend({job_.backend});
  job_.verification_tolerance = tolerance_for(job_, model_);
  if (needs_reference(job_)) ReferenceWeights::extent_of(job_, model_);  // or it throws
  place_on_cores(host.cpu);
  take_own_gpu(job_.gpus);  // the plan is not asked later
}

void JoinedWorld::fill_in(report::Report& report, const launch::SuperviseResult& result) {
  report::Run run = collect_run(job_, channels(), result);
  if (startup_s_ > 0) run.time.startup_s = report::Figure::of(startup_s_);
  run.time.total_s = report::Figure::of(report_.seconds_so_far());
  if (before_) {
    report::fill_conditions(run, *before_, peers().take_snapshot());
    report::Conditions& c = *run.conditions;
    for (report::Figure* const own :
         {&c.other_load_ratio, &c.major_page_faults, &c.involuntary_context_switches}) {
      if (!own->value) *own = report::Figure::missing("rank 0 does not see it of every rank");
    }
  }
  const bool diverged = run.status == report::Status::diverged;
  report.status = diverged ? report::Status::failed : run.status;
  report.error = run.error;
  report.runs = {std::move(run)};
}

void JoinedWorld::place_on_cores(const CpuTopology& topology) {
  const int devices = job_.cell.servers + (job_.has_cpu_servers() ? 0 : job_.cell.world_size);
  const auto own =
      own_cores(devices, job_.options.threads_per_device, environment(), peers().hosts(), topology);
  if (!own) return;
  job_.cores.at(static_cast<std::size_t>(environment().rank)) = *own;
  // The launcher dealt out the cores, and each rank sees only its own.
  if (job_.has_cpu_servers()) job_.oversubscribed = shares_gpus(job_);
}

void JoinedWorld::share_inputs() {
  dataset_ = share_dataset(peers(), *source_, progress_);
  if (!needs_reference(job_)) return;
  reference_ = share_reference(peers(), {job_, model_, dataset_, progress_, limit_s()});
  if (reference_) job_.reference_fd = 0;  // there is one; each rank maps it in its own way
}

RankInputs JoinedWorld::inputs() {
  RankInputs inputs;
  JoinedStore& store = peers().store();
  const JoinedHosts& hosts = peers().hosts();
  inputs.rank = environment().rank;
  inputs.store = store.get();
  inputs.decoded = dataset_.view().as<const std::byte>();
  inputs.reference = reference_ ? &*reference_ : nullptr;
  inputs.interrupted = [this] { return peers().is_told_to_end(); };
  inputs.check = [this] { peers().check(); };
  if (!hosts.are_several()) return inputs;
  inputs.address = store.own_address();
  inputs.host = hosts.name(environment().rank);
  const bool measures = peers().makes_for_host() && !hosts.share_one(environment().rank, 0);
  if (measures) inputs.read_clock = [&store] { return read_clock(*store.get()); };
  return inputs;
}

void JoinedWorld::say_begin() const {
  if (!dataset_note_.empty()) say("{}\n", dataset_note_);
  say("{}\n", data_note(job_.dataset, options()));
  if (!weights_note_.empty()) say("{}\n", weights_note_);
  if (options().dry_run) say("{}\n", plan_line(job_, find_devices("cpu").cpu.cores.size()));
  if (!options().dry_run && !options().quiet) say("{}\n", job_.title);
}

int JoinedWorld::train() {
  if (is_first()) {
    before_ = peers().take_snapshot();
    say_begin();
  }
  int exit_code = 0;
  std::optional<HangGuard> guard;  // outlives the session, whose end may hang, too
  guard_hangs(job_.backend, guard);
  HangGuard* const guarding = guard ? &*guard : nullptr;
  std::unique_ptr<RankSession> made;
  {
    // What a library does until its ranks are connected may hang, too.
    const EndWatch watch(
        {}, [this] { return peers().reason_to_end(); }, guarding);
    made = std::make_unique<RankSession>(job_, inputs(), writer());
  }
  const auto body = [&](RankSession& session) {
    startup_s_ = report_.seconds_so_far();
    guarded(session.peers(), guarding, [&] { session.run(); });
    exit_code = complete();
  };
  run_session(std::move(made), body, left_behind());
  if (is_first() && !options().dry_run) report_.send_trace();
  return exit_code;
}

}  // namespace

int join_world(Options options, const launch::RankEnvironment& environment,
               const std::vector<std::string>& arguments, ReportReader reader) {
  options.local_rank.reset();  // environment has it; it is no part of the configuration
  refuse_lists(options);
  return JoinedWorld(std::move(options), environment, arguments, reader).run();
}

}  // namespace ddpbench::bench
