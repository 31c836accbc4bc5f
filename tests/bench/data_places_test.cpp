// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/data_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// No data set of the catalog can be without them today.
TEST(CheckTestSamples, RefusesAnAccuracyThatNothingTells) {
  data::DatasetInfo dataset;
  dataset.name = "untested";
  dataset.directory = "/data/untested";
  dataset.channels = 1;
  Options options;
  options.dataset_mean.values = options.dataset_std.values = {0.5};
  check_data_options(options, dataset);
  options.until_accuracy = Percent{98};
  try {
    check_data_options(options, dataset);
    FAIL() << "it was taken";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("--until-accuracy=98%"), HasSubstr("untested in /data/untested"),
                      HasSubstr("no test samples")));
  }
  dataset.test_samples = 1;
  check_data_options(options, dataset);
}

}  // namespace
}  // namespace ddpbench::bench
