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
  Options options;
  check_test_samples(options, dataset);
  options.until_accuracy = Percent{98};
  try {
    check_test_samples(options, dataset);
    FAIL() << "it was taken";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("--until-accuracy=98%"), HasSubstr("untested in /data/untested"),
                      HasSubstr("no test samples")));
  }
  dataset.test_samples = 1;
  check_test_samples(options, dataset);
}

}  // namespace
}  // namespace ddpbench::bench
