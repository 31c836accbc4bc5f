// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A rank looks at the labels of a data set that it maps: another process has made it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/error.h"
#include "bench/host/host_devices.h"
#include "bench/plan/data_places.h"
#include "bench/plan/run_plan.h"
#include "bench/plan/sweep_plan.h"
#include "bench/rank/rank_trainer.h"
#include "bench/run/launch_run.h"
#include "datasets/dataset.h"
#include "kernels/nn/model/model_reader.h"

namespace ddpbench::bench {
namespace {

using testing::HasSubstr;

class MappedLabels : public testing::Test {
 protected:
  MappedLabels() {
    options_.device = "cpu";
    options_.backend = "shm";
    options_.model = "lenet5";
    options_.strategies = {"single"};
    options_.verify_steps = 0;
    info_.name = "mnist";
    info_.classes = 10;
    info_.height = info_.width = 28;
    info_.train_samples = 128;
    info_.test_samples = 64;
    decoded_.resize(info_.decoded_bytes());
  }
  data::DecodedParts parts() { return data::decoded_parts(info_, decoded_); }
  // What a rank says that is to train with this data; empty: it takes it.
  std::string refusal() {
    const std::string path = find_model(options_.model);
    const nn::ModelSpec model = nn::load_model_file(path);
    resolve_dataset(options_, model);
    const TrainingJob job = make_training_job(options_, plan_matrix(options_).at(0), info_,
                                              network_of(model, path), find_devices("cpu"));
    auto channels = launch::RankChannels::create(channel_layout(job, model));
    launch::RankWriter writer = channels.writer(0);
    RankInputs inputs;
    inputs.decoded = decoded_;
    try {
      const RankTrainer trainer(job, inputs, writer);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  Options options_;
  data::DatasetInfo info_;
  std::vector<std::byte> decoded_;
};

TEST_F(MappedLabels, ThatAreClassesAreTaken) { EXPECT_EQ(refusal(), ""); }

TEST_F(MappedLabels, ThatAreNoClassesAreToldWithTheirPlace) {
  parts().train.labels[77] = 10;
  EXPECT_THAT(
      refusal(),
      HasSubstr("mnist: record 77 of the training set has the label 10; labels are 0 to 9"));
  parts().train.labels[77] = 9;
  parts().test.labels[5] = 255;
  EXPECT_THAT(refusal(), HasSubstr("record 5 of the test set has the label 255"));
}

}  // namespace
}  // namespace ddpbench::bench
